//! Progress on standard error: a bar with the time left where a person looks on, otherwise only what must be
//! said.

use flipside::pipeline::Progress;
use flipside::wording::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

/// Bars on a terminal, nothing elsewhere; notes everywhere.
pub(crate) struct Bars {
    visible: bool,
    current: Mutex<Option<ProgressBar>>,
}

impl Bars {
    /// Bars if standard error is a terminal and nobody asked for quiet.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { visible: !quiet && std::io::stderr().is_terminal(), current: Mutex::new(None) }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Option<ProgressBar>) -> R) -> R {
        // A poisoned lock still holds a bar that can be drawn.
        work(&mut self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Progress for Bars {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        if !self.visible {
            return;
        }
        let amount = match unit {
            "bytes" => "{bytes} of {total_bytes}, {bytes_per_sec}".to_owned(),
            unit => format!("{{human_pos}} of {{human_len}} {unit}"),
        };
        let template = format!("{{prefix:>18}} {{bar:30}} {amount}, {{eta}} left");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style);
        bar.set_prefix(stage.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        self.with(|current| *current = Some(bar));
    }

    fn advance(&self, amount: u64) {
        if self.visible {
            self.with(|current| current.iter().for_each(|bar| bar.inc(amount)));
        }
    }

    fn end(&self) {
        if self.visible
            && let Some(bar) = self.with(Option::take)
        {
            bar.finish_and_clear();
        }
    }

    fn note(&self, message: &str) {
        let message = printable(message);
        self.with(|current| match current {
            Some(bar) => bar.suspend(|| eprintln!("flipside: {message}")),
            None => eprintln!("flipside: {message}"),
        });
    }
}
