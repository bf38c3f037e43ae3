//! The level of the processor: the instruction sets that it has, found once. A kernel is a loop in several versions,
//! and chooses one by the level. An environment variable may force a lower level.

use std::ffi::OsStr;
use std::sync::OnceLock;

/// The environment variable that forces a lower level, by one of the names in [`KernelChoice::available`].
pub const KERNEL_VARIABLE: &str = "SIMFLIP_KERNEL";

/// A level of the processor. Levels are ordered, and each includes the instructions of those below it. A value is the
/// proof that this processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Isa);

/// The levels in ascending order, for kernels to match on. Unlike a [`Level`], a value proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Isa {
    /// Plain Rust, the twin that the others are tested against.
    Portable,
    /// The instruction that counts the ones of a word.
    #[cfg(target_arch = "x86_64")]
    Popcnt,
    /// AVX2, and BMI1 and BMI2, which every processor with AVX2 has.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and VPOPCNTDQ, which Ice Lake and Zen 4 brought together. Processors
    /// with less of it use AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Level {
    /// The level that every processor has: plain Rust.
    pub const PORTABLE: Self = Self(Isa::Portable);

    /// All levels that this processor has, the lowest first, whatever the environment says.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64")),
            expect(unused_mut, reason = "there is no other level")
        )]
        let mut levels = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            let steps = [
                (Isa::Popcnt, is_x86_feature_detected!("popcnt")),
                (
                    Isa::Avx2,
                    is_x86_feature_detected!("avx2")
                        && is_x86_feature_detected!("bmi1")
                        && is_x86_feature_detected!("bmi2"),
                ),
                (
                    Isa::Avx512Vbmi,
                    is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512vpopcntdq")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx512dq")
                        && is_x86_feature_detected!("avx512vl")
                        && is_x86_feature_detected!("avx512vbmi")
                        && is_x86_feature_detected!("avx512vbmi2"),
                ),
            ];
            levels.extend(steps.iter().take_while(|(_, reached)| *reached).map(|&(isa, _)| Self(isa)));
        }
        #[cfg(target_arch = "aarch64")]
        if super::neon::available() {
            levels.push(Self(Isa::Neon));
        }
        levels
    }

    /// The level that this process uses: the highest, unless [`KERNEL_VARIABLE`] forces a lower one.
    #[inline]
    pub fn in_use() -> Self {
        chosen().level
    }

    /// The level's name, as [`KERNEL_VARIABLE`] spells it.
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Popcnt => "popcnt",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi => "avx512-vbmi",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => "neon",
        }
    }

    /// The level as a value to match on.
    #[inline(always)]
    pub(super) fn isa(self) -> Isa {
        self.0
    }
}

/// The level of the processor that this process uses. Results do not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The name of the level in use: `portable`, `popcnt`, `avx2`, `avx512-vbmi` or `neon`.
    pub level: &'static str,
    /// The names of all levels that this processor has, the lowest first.
    pub available: Vec<&'static str>,
    /// The value of [`KERNEL_VARIABLE`], if it is none of the available names; `None` if it is one, empty or not set.
    /// The highest level is in use where a value is refused.
    pub refused: Option<String>,
}

/// Returns the level in use, the levels that could be, and a value of [`KERNEL_VARIABLE`] that names none of them.
///
/// [`KERNEL_VARIABLE`] is read once, at the first use of a kernel or of this function. If it is not set, or
/// empty, the highest level is used. A library must not fail for a wrong value, so that is used then too; a
/// program can ask here and refuse to run.
pub fn kernel_choice() -> KernelChoice {
    let Chosen { level, refused } = chosen();
    KernelChoice {
        level: level.name(),
        available: Level::available().into_iter().map(Level::name).collect(),
        refused: refused.clone(),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Chosen {
    level: Level,
    refused: Option<String>,
}

#[inline]
fn chosen() -> &'static Chosen {
    static CHOSEN: OnceLock<Chosen> = OnceLock::new();
    CHOSEN.get_or_init(|| choose(&Level::available(), std::env::var_os(KERNEL_VARIABLE).as_deref()))
}

/// The level that the variable's value names, of levels in ascending order.
#[cold]
fn choose(available: &[Level], asked: Option<&OsStr>) -> Chosen {
    let highest = available.last().copied().unwrap_or(Level::PORTABLE);
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        return Chosen { level: highest, refused: None };
    };
    match available.iter().find(|level| asked == level.name()) {
        Some(&level) => Chosen { level, refused: None },
        None => Chosen { level: highest, refused: Some(asked.to_string_lossy().into_owned()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_is_used_unless_a_lower_one_is_asked_for() {
        let available = Level::available();
        let highest = *available.last().unwrap();
        assert!(available[0] == Level::PORTABLE && available.is_sorted_by(|a, b| a < b));
        for asked in [None, Some(OsStr::new(""))] {
            assert_eq!(choose(&available, asked), Chosen { level: highest, refused: None });
        }
        for &level in &available {
            let asked = Some(OsStr::new(level.name()));
            assert_eq!(choose(&available, asked), Chosen { level, refused: None });
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let available = Level::available();
        let highest = *available.last().unwrap();
        for asked in ["AVX2", "sse9", " portable", "avx512-vbmi"] {
            let chosen = choose(&available[..1], Some(OsStr::new(asked)));
            assert_eq!(chosen, Chosen { level: Level::PORTABLE, refused: Some(asked.to_owned()) });
        }
        let chosen = choose(&available, Some(OsStr::new("abacus")));
        assert_eq!(chosen, Chosen { level: highest, refused: Some("abacus".to_owned()) });
    }

    #[test]
    fn this_process_uses_what_its_environment_says() {
        let asked = std::env::var_os(KERNEL_VARIABLE);
        assert_eq!(*chosen(), choose(&Level::available(), asked.as_deref()));
        let choice = kernel_choice();
        assert_eq!(choice.level, Level::in_use().name());
        assert!(choice.available.contains(&choice.level));
    }
}
