//! Ctrl-C, a terminal that closes, and `kill`: what was begun is taken away before the program ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use simflip::atomic_write::{kept, kept_messages, take_all_away};

/// Starts to listen for signals that end the program. A signal that the program was asked to ignore, as `nohup`
/// does, stays ignored; one that cannot be listened for ends the program at once. Before the program ends, it prints
/// where finished work stays, if there is such a folder, or else `farewell`.
pub(super) fn clean_up_on_end(farewell: Option<&'static str>) {
    let ignored = ignored();
    let wanted: Vec<i32> =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect();
    let Ok(mut signals) = Signals::new(wanted) else { return };
    let listen = move || {
        for signal in signals.forever() {
            take_all_away();
            if let Some(folder) = kept() {
                super::note(&format!("ended. What was finished is {}", kept_messages(&folder)));
            } else if let Some(farewell) = farewell {
                super::note(farewell);
            }
            let _ = emulate_default_handler(signal);
        }
    };
    drop(std::thread::Builder::new().spawn(listen));
}

/// The signals that are ignored, a bit for each from signal 1 on. Where the system does not say, the one that
/// `nohup` ignores is left alone.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(1 << (SIGHUP - 1))
}
