# Short names for what is done often; each line is what it runs.

test:
    cargo test

ci:
    bash .ci/run

demo:
    cargo run --release -- dedup data --out result --force

# Processor time of the whole job against decompressing alone.
cost *FILES:
    cargo run --release --example job_cost -- {{FILES}}

bench:
    cargo bench -p simflip-benches --features criterion

# The published curves and tables, measured again: just experiment list.
experiment *ARGS:
    cargo run --release -p simflip-experiments -- {{ARGS}}

# Which changes of the code no test would notice: needs cargo-mutants, and hours; just mutants -f src/format.rs.
mutants *ARGS:
    cargo mutants --workspace {{ARGS}}
