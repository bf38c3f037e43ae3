#!/usr/bin/env bash
# Half an hour of every fuzz target, coverage-guided, on the corpus of the weeks before: `fuzz/weekly.sh [SECONDS]`.
# Needs cargo-fuzz and a nightly compiler. What fails is in fuzz/artifacts/; it becomes a specimen of tests/.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-1800}
# libdeflate includes its tables twice, which the sanitizer would take for a fault of ours.
export ASAN_OPTIONS=detect_odr_violation=0
# The test runs in its own folder.
cargo test --release -p simflip-fuzz --test mutate -- seeds "$PWD/fuzz/corpus"
# To optimise watched code takes longer than a short run.
[ "$seconds" -ge 600 ] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
# Leaks: a thread may still take down what is its own when the run that began it is over, which would be taken for one.
cargo +nightly fuzz build --features libfuzzer
cargo +nightly fuzz list | xargs -P "$(nproc)" -I TARGET cargo +nightly fuzz run --features libfuzzer TARGET fuzz/corpus/TARGET -- \
  -dict=fuzz/corpus/TARGET.dict -max_total_time="$seconds" -rss_limit_mb=4096 -detect_leaks=0
