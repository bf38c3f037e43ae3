#!/usr/bin/env bash
# Half an hour of every fuzz target, coverage-guided, on the corpus of the weeks before: `fuzz/weekly.sh [SECONDS]`.
# Needs cargo-fuzz and a nightly compiler. What fails is in fuzz/artifacts/; it becomes a specimen of tests/.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-1800}
# libdeflate includes its tables twice, which the sanitizer would take for a fault of ours.
export ASAN_OPTIONS=detect_odr_violation=0
for target in $(cargo +nightly fuzz list | grep -v '^mutate$'); do
  corpus=fuzz/corpus/$target
  mkdir -p "$corpus"
  case $target in
    parquet_file) cp tests/specimens/*.parquet "$corpus" ;;
    gzip_member) cp tests/specimens/*.gz "$corpus" ;;
    tables) cp tests/results-v1/*/*.csv "$corpus" ;;
    report) for file in tests/results-v1/*/report.json; do cp "$file" "$corpus/$(basename "$(dirname "$file")").json"; done ;;
    stored_file | packed_records | text) cp tests/specimens/* tests/specimens-html/* "$corpus" ;;
  esac
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=4096
done
