//! Queries a second against recall, one line of CSV for each method and budget.
//!
//! ```text
//! cargo bench --bench dial -- --hashes 10000000 --queries 300000 --methods dial,bphs,psm [--distance H]
//!     [--budgets 4,6,8] [--tables 2,3] [--flips 1,2] [--key-bits 21,22] [--bphs-tables 4,10]
//! ```
//! Stored hashes are uniform. Each query is a Gaussian weight vector with one stored partner at distance 1 to h, made by
//! moving the vector: to a cosine of .98 to .9999 for h ≤ 3, farther for larger h. Recall is the share of partners found
//! (in mode First: of queries with any match); time is the thread's processor time. Not a criterion bench: one run
//! compares everything on the same list.

fn main() {
    dial::main();
}

mod dial {
    use flipside::Id;
    use flipside::hash::SplitMix64;
    use flipside::search::bphs::{Bphs, BphsParams};
    use flipside::search::dial::{Dial, DialParams};
    use flipside::search::psm::{Psm, PsmParams, Reading};
    use flipside::search::{HammingIndex, Mode, Query, Scratch};
    use flipside::simhash::{SimHash, distance};
    use std::collections::HashMap;
    use std::time::Duration;

    /// A number from N(0, 1), by Box and Muller.
    fn gaussian(rng: &mut SplitMix64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
        radius * libm::cos(std::f64::consts::TAU * rng.unit())
    }

    struct Workload {
        hashes: Vec<u64>,
        queries: Vec<SimHash>,
        partners: Vec<u64>,
    }

    fn workload(stored: usize, asked: usize, radius: u32) -> Workload {
        let mut rng = SplitMix64::new(2011);
        let (mut queries, mut partners) = (Vec::new(), Vec::new());
        while queries.len() < asked {
            let query = SimHash::from_weights(std::array::from_fn(|_| gaussian(&mut rng) as f32));
            let far = if radius <= 3 { 0.02 } else { 0.02 * f64::from(radius * radius) / 9.0 };
            let cosine = 0.9999 - far * rng.unit();
            let sine = libm::sqrt(1.0 - cosine * cosine);
            let moved = query.weights.map(|w| (cosine * f64::from(w) + sine * gaussian(&mut rng)) as f32);
            let partner = SimHash::from_weights(moved).hash;
            if (1..=radius).contains(&distance(query.hash, partner)) {
                queries.push(query);
                partners.push(partner);
            }
        }
        let mut hashes = partners.clone();
        hashes.extend((asked..stored).map(|_| rng.next_u64()));
        hashes.sort_unstable();
        hashes.dedup();
        Workload { hashes, queries, partners }
    }

    fn cpu() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn measure(workload: &Workload, index: &dyn HammingIndex, budget: &str) {
        let queries: Vec<Query<'_>> = workload
            .queries
            .iter()
            .map(|query| Query { hash: query.hash, weights: &query.weights })
            .collect();
        let (mut scratch, mut hits) = (Scratch::default(), Vec::new());
        index.search_many(&queries[..queries.len().min(2000)], Mode::All, &mut scratch, &mut hits);
        for mode in [Mode::All, Mode::First] {
            hits.clear();
            let before = cpu();
            let cost = index.search_many(&queries, mode, &mut scratch, &mut hits);
            let seconds = (cpu() - before).as_secs_f64();
            let mut found = vec![false; queries.len()];
            for (query, hit) in &hits {
                found[*query as usize] |= mode == Mode::First
                    || workload.hashes[hit.slot.index()] == workload.partners[*query as usize];
            }
            let n = queries.len() as f64;
            println!(
                "{},{budget},{mode:?},{},{:.4},{:.0},{:.2},{:.2},{:.2}",
                index.name(),
                workload.hashes.len(),
                found.iter().filter(|&&found| found).count() as f64 / n,
                n / seconds,
                cost.probes as f64 / n,
                cost.candidates as f64 / n,
                index.bytes() as f64 / workload.hashes.len() as f64,
            );
        }
    }

    pub fn main() {
        let arguments: Vec<String> = std::env::args().collect();
        let options: HashMap<&str, &str> = arguments
            .windows(2)
            .filter(|pair| pair[0].starts_with("--"))
            .map(|pair| (&pair[0][2..], pair[1].as_str()))
            .collect();
        let number = |name: &str, default: usize| {
            options.get(name).map_or(default, |text| text.parse().expect("a whole number"))
        };
        let radius = number("distance", 3) as u32;
        let workload = workload(number("hashes", 1 << 20), number("queries", 1 << 17), radius);
        let methods = options.get("methods").copied().unwrap_or("dial,bphs,psm");
        let list = |name: &str, default: &str| -> Vec<u32> {
            let text = options.get(name).copied().unwrap_or(default);
            text.split(',').map(|number| number.parse().expect("whole numbers with commas between")).collect()
        };
        let budgets = list("budgets", "4,5,6,7,8,10,12,16");
        println!("method,budget,mode,hashes,recall,queries_per_cpu_second,probes,candidates,bytes_per_hash");
        for method in methods.split(',') {
            match method {
                "dial" => {
                    let choices = list("tables", "2").into_iter().flat_map(|tables| {
                        let flips = list("flips", &(radius / tables).min(2).to_string());
                        flips.into_iter().map(move |flips| (tables, flips))
                    });
                    for (tables, flips) in choices {
                        for &p in &list("key-bits", "0") {
                            let key_bits = (p > 0).then_some(p);
                            let flips = Some(flips);
                            let params =
                                DialParams { radius, tables, flips, key_bits, ..DialParams::default() };
                            let mut index = Dial::new(&workload.hashes, params).expect("valid");
                            for &budget in &budgets {
                                index = index.with_budget(Some(budget));
                                measure(&workload, &index, &budget.to_string());
                            }
                            measure(&workload, &index.with_budget(None), "all");
                        }
                    }
                }
                "bphs" => {
                    for tables in list("bphs-tables", "4,10") {
                        let index =
                            Bphs::new(&workload.hashes, BphsParams { radius, tables }).expect("valid");
                        measure(&workload, &index, "all");
                    }
                }
                "psm" => {
                    for (reading, budgets) in [
                        (Reading::P { key_bits: None }, [10, 14, 30]),
                        (Reading::X { filter_bits: 8 }, [200, 370, 800]),
                    ] {
                        let params = PsmParams { radius, reading, ..PsmParams::default() };
                        let mut index = Psm::new(&workload.hashes, params).expect("valid");
                        for budget in budgets {
                            index = index.with_budget(Some(budget));
                            measure(&workload, &index, &budget.to_string());
                        }
                    }
                }
                other => panic!("no method {other}"),
            }
        }
    }
}
