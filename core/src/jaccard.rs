//! The bits that estimate the Jaccard similarity of two sets of features. The elements of a set are feature hashes.
//!
//! The form of a set's bits depends on its size:
//!
//! - *Few* elements: a hash of each of them. Two such sets are compared exactly.
//! - Up to half as many elements as bits: two *odd sketches* (Mitzenmacher, Pagh & Pham 2014). In each, every element
//!   turns over one bit, so that elements of both sets cancel out, and the bits that differ count the others. The error
//!   comes from elements that meet in a bit, few in a set that fits.
//! - Many elements: one bit of each MinHash position ([`one_bit`]), with the same error for sets of any size.
//! - Between: one odd sketch and half of the MinHash positions, so that sets of similar size always have bits of one
//!   kind in common.
//!
//! With [`Forms::Minima`], or an odd number of words, sets of any size have the bits of many elements. With
//! [`Forms::Values`] the bits are whole MinHash values, and the estimate is the share of equal ones.
//!
//! Sketching twice and the mix are ours, and so are the bounds. Reports print the standard errors.

use crate::hash::fmix64;
use crate::kernel::Level;
use crate::kernel::differing::Head;
use crate::minhash::{MinHasher, one_bit};
use crate::settings::{Forms, MOST_PERMUTATIONS};
use std::ops::Range;
use std::sync::OnceLock;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The most words of 64 bits that a set's bits have.
pub(crate) const MOST_WORDS: usize = MOST_PERMUTATIONS / WORD;

/// The bits of a set, and how many elements it has.
#[derive(Clone, Copy, Debug)]
pub struct SetBits<'a> {
    /// The bits, 64 to a word.
    pub words: &'a [u64],
    /// Number of elements of the set.
    pub size: u32,
    /// The rule for the form of the bits.
    pub forms: Forms,
}

/// The form of one set's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A hash of each element, ascending: of 64 bits where they fit, of 32 otherwise. The rest is zero.
    Few,
    /// Two odd sketches, by two hashes.
    Twice,
    /// The first of them, and one bit of each MinHash position of the second half.
    Half,
    /// One bit of each MinHash position.
    Minima,
    /// The value of each MinHash position, two to a word.
    Values,
}

impl Form {
    /// The form of a set of `size` elements. The sizes of one with two odd sketches and of one that is all minima
    /// differ by a factor of three, so that two such sets share less than a third.
    fn of(size: u32, words: usize, forms: Forms) -> Self {
        let [twice, half] = largest_odd(words * WORD);
        match size {
            _ if forms == Forms::Values => Self::Values,
            _ if words % 2 == 1 || forms == Forms::Minima => Self::Minima,
            _ if size <= largest_exact(words * WORD) => Self::Few,
            _ if size <= twice => Self::Twice,
            _ if size <= half => Self::Half,
            _ => Self::Minima,
        }
    }
}

impl<'a> SetBits<'a> {
    /// The bits of a set of `size` elements, of the form that [its size](Forms::BySize) gives.
    pub fn by_size(words: &'a [u64], size: u32) -> Self {
        Self { words, size, forms: Forms::BySize }
    }

    fn form(&self) -> Form {
        Form::of(self.size, self.words.len(), self.forms)
    }

    /// The first words of each half; those of minima alone, which are one row, are the first of it and of its second
    /// half. A few elements show the first words of their odd sketch, and values one bit of each of the first.
    fn heads(&self) -> (Head, Head) {
        let head = |words: &[u64]| {
            let mut head = Head::default();
            head.iter_mut().zip(words).for_each(|(to, &word)| *to = word);
            head
        };
        let (first, second) = self.words.split_at(self.words.len() / 2);
        match self.form() {
            Form::Few => (head(&self.odd()), Head::default()),
            Form::Values => (one_bit::pack_first(values(self.words)), Head::default()),
            Form::Minima => (head(self.words), head(second)),
            Form::Twice | Form::Half => (head(first), head(second)),
        }
    }

    /// 32 bits of the hash of each of a few elements, ascending.
    fn hashes(&self) -> impl Iterator<Item = u32> {
        let (size, words) = (self.size as usize, self.words);
        let is_wide = size <= words.len();
        (0..size).map(move |at| match is_wide {
            true => (words[at] >> 32) as u32,
            false => (words[at / 2] >> (32 * (at % 2))) as u32,
        })
    }

    /// The first odd sketch of a few elements.
    fn odd(&self) -> Vec<u64> {
        let mut odd = vec![0; self.words.len() / 2];
        let bits = odd.len() * WORD;
        for hash in self.hashes() {
            let bit = place(hash, bits);
            odd[bit / WORD] ^= 1 << (bit % WORD);
        }
        odd
    }

    /// The number of elements that two sets of a few have in common.
    fn shared(&self, other: &Self) -> u32 {
        fn common<T: Ord>(mut a: impl Iterator<Item = T>, mut b: impl Iterator<Item = T>) -> u32 {
            let (mut x, mut y, mut shared) = (a.next(), b.next(), 0);
            while let (Some(own), Some(others)) = (&x, &y) {
                let order = own.cmp(others);
                shared += u32::from(order.is_eq());
                if order.is_le() {
                    x = a.next();
                }
                if order.is_ge() {
                    y = b.next();
                }
            }
            shared
        }
        let is_wide = |set: &Self| set.size as usize <= set.words.len();
        match is_wide(self) && is_wide(other) {
            true => {
                let [a, b] = [self, other].map(|set| &set.words[..set.size as usize]);
                common(a.iter(), b.iter())
            }
            false => common(self.hashes(), other.hashes()),
        }
    }
}

/// The bit of an odd sketch that an element of this hash turns over.
fn place(hash: u32, bits: usize) -> usize {
    ((u64::from(hash) * bits as u64) >> 32) as usize
}

/// Makes the bits of sets. It holds buffers: make one for each thread.
#[derive(Clone, Debug)]
pub struct BitSketcher {
    forms: Forms,
    minima: MinHasher,
    signature: Vec<u32>,
    /// A byte for each bit of a sketch, whose lowest bit it is.
    turned: Vec<u8>,
    seed: u64,
}

impl BitSketcher {
    /// A sketcher of as many bits as `minima` has positions: a multiple of 64. `seed` chooses the bit that a feature
    /// turns over.
    pub(crate) fn new(forms: Forms, minima: MinHasher, seed: u64) -> Self {
        let signature = vec![0; minima.params().permutations];
        let turned = vec![0; signature.len()];
        Self { forms, minima, signature, turned, seed }
    }

    /// The bits of a set of features, each of which is given once; 64 to a word.
    pub fn sketch(&mut self, features: &[u64]) -> Vec<u64> {
        let words = self.signature.len() / WORD;
        let size = u32::try_from(features.len()).unwrap_or(u32::MAX);
        self.sketch_as(Form::of(size, words, self.forms), features)
    }

    fn sketch_as(&mut self, form: Form, features: &[u64]) -> Vec<u64> {
        let mut words = vec![0; self.signature.len() / WORD];
        if form == Form::Few {
            let mut hashes: Vec<u64> = features.iter().map(|feature| fmix64(feature ^ self.seed)).collect();
            hashes.sort_unstable();
            match hashes.len() <= words.len() {
                true => words[..hashes.len()].copy_from_slice(&hashes),
                false => {
                    for (at, hash) in hashes.into_iter().enumerate() {
                        words[at / 2] |= (hash >> 32) << (32 * (at % 2));
                    }
                }
            }
            return words;
        }
        let (first, second) = words.split_at_mut(self.signature.len() / WORD / 2);
        if form != Form::Minima {
            // A byte for each bit, until all are turned: features seldom wait for the byte of another one.
            self.turned.fill(0);
            let (turned, turned_twice) = self.turned.split_at_mut(first.len() * WORD);
            let turn = |bits: &mut [u8], hash: u32| bits[place(hash, bits.len())] ^= 1;
            let hashes = features.iter().map(|feature| (fmix64(feature ^ self.seed) >> 32) as u32);
            if form == Form::Twice {
                hashes.for_each(|hash| {
                    turn(turned, hash);
                    // Other bits of the hash decide: an odd sketch has 2¹⁵ bits at most.
                    turn(turned_twice, hash.rotate_left(16));
                });
                Level::in_use().pack_bytes(turned_twice, second);
            } else {
                hashes.for_each(|hash| turn(turned, hash));
            }
            Level::in_use().pack_bytes(turned, first);
        }
        if form != Form::Twice {
            self.minima.sign(features, &mut self.signature);
            let (of_first, of_second) = self.signature.split_at(first.len() * WORD);
            if form == Form::Minima {
                one_bit::pack(of_first, first);
            }
            one_bit::pack(of_second, second);
        }
        words
    }
}

/// The Jaccard similarity of two sets as their bits estimate it, no more than their sizes allow. It is 0 for bits of
/// different lengths or none. It is 0 for forms that cannot be compared, too: then one set is at least thrice as large
/// as the other.
pub fn estimate(a: SetBits<'_>, b: SetBits<'_>) -> f32 {
    let words = a.words.len();
    if words == 0 || words != b.words.len() {
        return 0.0;
    }
    let (half, sizes, level) = (words / 2, [a.size, b.size], Level::in_use());
    let first = || level.differing(&a.words[..half], &b.words[..half]);
    let second = || level.differing(&a.words[half..], &b.words[half..]);
    let minima = || one_bit::estimate_of(second(), words - half);
    let with_few = |few: &SetBits<'_>, other: &SetBits<'_>| {
        of_odd(&[level.differing(&few.odd(), &other.words[..half])], half, sizes)
    };
    let estimate = match (a.form(), b.form()) {
        (Form::Few, Form::Few) => {
            jaccard(f64::from(a.size) + f64::from(b.size) - 2.0 * f64::from(a.shared(&b)), sizes)
        }
        (Form::Few, Form::Twice | Form::Half) => with_few(&a, &b),
        (Form::Twice | Form::Half, Form::Few) => with_few(&b, &a),
        (Form::Twice, Form::Twice) => of_odd(&[first(), second()], half, sizes),
        (Form::Twice, Form::Half) | (Form::Half, Form::Twice) => of_odd(&[first()], half, sizes),
        (Form::Half, Form::Half) => mean(of_odd(&[first()], half, sizes), minima(), half, sizes),
        (Form::Half, Form::Minima) | (Form::Minima, Form::Half) => minima(),
        (Form::Minima, Form::Minima) => one_bit::estimate(a.words, b.words),
        (Form::Values, Form::Values) => equal_values(a.words, b.words) as f32 / (2 * words) as f32,
        (Form::Few | Form::Twice, Form::Minima) | (Form::Minima, Form::Few | Form::Twice) => 0.0,
        (Form::Values, _) | (_, Form::Values) => 0.0,
    };
    at_most(estimate, sizes)
}

/// The MinHash values that stand in words, two to a word.
pub(crate) fn values(words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32])
}

/// Counts the positions at which two lists of values are equal, which have two values to a word.
fn equal_values(a: &[u64], b: &[u64]) -> u32 {
    let equal = |(a, b): (&u64, &u64)| {
        let differing = a ^ b;
        u32::from(differing as u32 == 0) + u32::from(differing >> 32 == 0)
    };
    a.iter().zip(b).map(equal).sum()
}

/// True if two sets of these sizes cannot have a Jaccard similarity of `threshold`.
fn is_ruled_out(threshold: f32, sizes: [u32; 2]) -> bool {
    at_most(1.0, sizes) < threshold
}

/// Sets ascending by size, whose first words lie together, so that those near another set are found fast.
pub(crate) struct Sieve<'a> {
    sets: Vec<SetBits<'a>>,
    /// Of each half the first words.
    heads: [Vec<Head>; 2],
    /// Sets whose bits are of one form, one run behind the other.
    runs: Vec<(Form, Range<usize>)>,
}

impl<'a> Sieve<'a> {
    /// The number of sets whose bits stay in a processor's cache while many others are compared with them.
    pub const BLOCK: usize = 1024;

    /// Takes sets that ascend by size, with bits of the same length.
    pub fn new(sets: Vec<SetBits<'a>>) -> Self {
        debug_assert!(sets.is_sorted_by_key(|set| set.size));
        let (first, second) = sets.iter().map(SetBits::heads).unzip();
        let mut runs: Vec<(Form, Range<usize>)> = Vec::new();
        // A few elements are compared as what they would be if they were more.
        let form = |set: &SetBits<'_>| if set.form() == Form::Few { Form::Twice } else { set.form() };
        for run in sets.chunk_by(|a, b| form(a) == form(b)) {
            let start = runs.last().map_or(0, |(_, before)| before.end);
            runs.push((form(&run[0]), start..start + run.len()));
        }
        Self { sets, heads: [first, second], runs }
    }

    /// Writes the places of the sets whose [`estimate`] with `set` is at least `threshold` to `found`, ascending, in
    /// place of its values.
    pub fn near(&self, set: SetBits<'_>, threshold: f32, found: &mut Vec<u32>) {
        found.clear();
        let sizes = |of: &SetBits<'_>| [set.size, of.size];
        let from = self.sets.partition_point(|of| of.size < set.size && is_ruled_out(threshold, sizes(of)));
        let to = from
            + self.sets[from..]
                .partition_point(|of| of.size <= set.size || !is_ruled_out(threshold, sizes(of)));
        let [first, second] = &self.heads;
        let (first_head, second_head) = set.heads();
        let words = set.words.len();
        for (form, run) in &self.runs {
            let at = run.start.max(from)..run.end.min(to);
            if at.is_empty() {
                continue;
            }
            let (start, run) = (found.len(), &self.sets[at.clone()]);
            let least = f64::from(threshold);
            // The larger sets are, the more elements may differ.
            let not_shared = most_not_shared(least, [set.size, run[run.len() - 1].size]);
            let minima = |words: usize| most_differing(least, words);
            let mut within = |head: &Head, heads: &[Head], most: u32| {
                Level::in_use().within(head, &heads[at.clone()], most, found);
            };
            let own = if set.form() == Form::Few { Form::Twice } else { set.form() };
            match (own, *form) {
                // Two sketches tell at least as many elements as bits that differ in either.
                (Form::Few | Form::Twice, Form::Few | Form::Twice) => {
                    within(&first_head, first, not_shared as u32)
                }
                (Form::Few | Form::Twice, Form::Half) | (Form::Half, Form::Few | Form::Twice) => {
                    within(&first_head, first, most_odd(not_shared, words / 2));
                }
                // The mean of both is no more than the larger.
                (Form::Half, Form::Half) => {
                    within(&first_head, first, most_odd(not_shared, words / 2));
                    within(&second_head, second, minima(words - words / 2));
                }
                (Form::Half, Form::Minima) | (Form::Minima, Form::Half) => {
                    within(&second_head, second, minima(words - words / 2));
                }
                (Form::Minima, Form::Minima) => within(&first_head, first, minima(words)),
                (Form::Values, Form::Values) => {
                    let most = (1.0 - least.max(0.0)) * (2 * words) as f64 + SLACK;
                    within(&first_head, first, most as u32);
                }
                // Bits of no kind in common: 0.
                (Form::Few | Form::Twice, Form::Minima)
                | (Form::Minima, Form::Few | Form::Twice)
                | (Form::Values, _)
                | (_, Form::Values) => {
                    if least <= 0.0 {
                        within(&first_head, first, u32::MAX);
                    }
                }
            }
            found[start..].iter_mut().for_each(|place| *place += at.start as u32);
            // The two sketches of halves may both have found a set.
            found[start..].sort_unstable();
            found.dedup();
        }
        found.retain(|&at| estimate(set, self.sets[at as usize]) >= threshold);
    }
}

/// The most elements that two sets of these sizes do not share, with a Jaccard similarity of at least `least`; rounding
/// makes it no less.
fn most_not_shared(least: f64, [a, b]: [u32; 2]) -> f64 {
    match least > 0.0 {
        true => (f64::from(a) + f64::from(b)) * (1.0 - least) / (1.0 + least) + SLACK,
        false => f64::INFINITY,
    }
}

/// The most bits of an odd sketch of `words` words that differ where at most `elements` elements are counted.
fn most_odd(elements: f64, words: usize) -> u32 {
    // What is counted is less than what is expected by at most one.
    let expected = expected_elements(words);
    match expected.partition_point(|&expected| expected <= elements + 1.0) {
        all if all == expected.len() => u32::MAX,
        more => more as u32 - 1,
    }
}

/// The most bits of `words` words of minima that differ where the estimate is at least `least`.
fn most_differing(least: f64, words: usize) -> u32 {
    if least <= 0.0 {
        return u32::MAX;
    }
    ((1.0 - least) / 2.0 * (words * WORD) as f64 + SLACK) as u32
}

/// A part of a bit that is more than rounding takes from a number of bits.
const SLACK: f64 = 0.05;

/// The standard error of [`estimate`] by [`Forms::BySize`] for two sets of `size` elements each, with `bits` bits and
/// this Jaccard similarity. It is 0 for sets so small that the bits hold all elements.
pub fn standard_error(similarity: f64, bits: usize, size: u32) -> f64 {
    let words = bits / WORD;
    let form = Form::of(size, words, Forms::BySize);
    variance([form; 2], words, 2.0 * f64::from(size), similarity).sqrt()
}

/// The standard error of [`estimate`] for two sets of about the largest size that has [two odd sketches](largest_odd),
/// if one is a little larger and has a single one. They have one sketch in common.
pub fn standard_error_between(similarity: f64, bits: usize) -> f64 {
    odd_variance(similarity, bits / WORD / 2, 2.0 * f64::from(largest_odd(bits)[0])).sqrt()
}

/// The standard error of [`estimate`] for two sets of these sizes and forms, if they had this Jaccard similarity.
pub(crate) fn error(a: SetBits<'_>, b: SetBits<'_>, similarity: f64) -> f64 {
    let sum = f64::from(a.size) + f64::from(b.size);
    variance([a.form(), b.form()], a.words.len(), sum, similarity).sqrt()
}

/// The variance of the estimate by `words` words, for two sets of these forms with `sum` elements together.
fn variance(forms: [Form; 2], words: usize, sum: f64, similarity: f64) -> f64 {
    let odd = || odd_variance(similarity, words / 2, sum);
    let minima = |bits: usize| one_bit::standard_error(similarity, bits).powi(2);
    let half = || minima(words * WORD / 2);
    match forms {
        [Form::Few, Form::Few] => 0.0,
        [Form::Twice, Form::Twice] => odd() / 2.0,
        [Form::Half, Form::Half] => odd() * half() / (odd() + half()),
        [Form::Minima, Form::Minima] => minima(words * WORD),
        [Form::Values, Form::Values] => standard_error_of_values(similarity, 2 * words).powi(2),
        [Form::Half, Form::Minima] | [Form::Minima, Form::Half] => half(),
        _ => odd(),
    }
}

/// The standard error of [`estimate`] by [`Forms::Values`], from `positions` values: √(J · (1 − J) / positions).
pub fn standard_error_of_values(similarity: f64, positions: usize) -> f64 {
    (similarity * (1.0 - similarity) / positions as f64).sqrt()
}

/// The largest standard error of [`estimate`] for sets of any size, with `words` words of bits of these forms and this
/// Jaccard similarity.
pub(crate) fn largest_error(similarity: f64, words: usize, forms: Forms) -> f64 {
    let bits = words * WORD;
    let [small, _] = largest_odd(bits);
    match (forms, small) {
        (Forms::Values, _) => standard_error_of_values(similarity, 2 * words),
        (Forms::Minima, _) | (_, 0) => one_bit::standard_error(similarity, bits),
        _ => standard_error_between(similarity, bits).max(one_bit::standard_error(similarity, bits / 2)),
    }
}

/// The number of elements of the largest set whose bits hold a hash of each element; 0 if there is none.
pub fn largest_exact(bits: usize) -> u32 {
    match (bits / WORD) % 2 {
        1 => 0,
        _ => bits as u32 / 32,
    }
}

/// The numbers of elements of the largest set whose bits are two odd sketches, and of the largest that has one odd
/// sketch. They are 0 if no set has any.
pub fn largest_odd(bits: usize) -> [u32; 2] {
    match (bits / WORD) % 2 {
        1 => [0, 0],
        _ => [bits as u32 / 2, bits as u32 / 2 * 3],
    }
}

/// An estimate of a Jaccard similarity, lowered to the most that sets of these sizes can have.
pub(crate) fn at_most(estimate: f32, [a, b]: [u32; 2]) -> f32 {
    match a.max(b) {
        0 => estimate,
        larger => estimate.min((f64::from(a.min(b)) / f64::from(larger)) as f32),
    }
}

/// The share of the smaller of two sets that the larger one has, from the Jaccard similarity J and the sizes:
/// |A ∩ B| = J·(|A| + |B|) / (1 + J). It is 1 if the smaller set is empty.
pub(crate) fn contained(similarity: f32, [a, b]: [u32; 2]) -> f32 {
    let (similarity, smaller) = (f64::from(similarity), f64::from(a.min(b)));
    if smaller == 0.0 {
        return 1.0;
    }
    let shared = similarity * (f64::from(a) + f64::from(b)) / (1.0 + similarity);
    (shared / smaller).min(1.0) as f32
}

/// The Jaccard similarity of sets of these sizes that do not share `not_shared` elements.
fn jaccard(not_shared: f64, [a, b]: [u32; 2]) -> f32 {
    let sum = f64::from(a) + f64::from(b);
    match sum + not_shared {
        0.0 => 1.0,
        all => ((sum - not_shared) / all).max(0.0) as f32,
    }
}

/// The estimate from the numbers of bits in which odd sketches of `words` words differ.
///
/// The number of elements is the mean of what is expected for these bits, but no less than any of them, and that
/// number less the bits is even, since each collision hides two. So a few elements, which hardly ever collide in all
/// sketches, are counted exactly.
fn of_odd(differing: &[u32], words: usize, sizes: [u32; 2]) -> f32 {
    let (mut expected, mut least) = (0.0, 0);
    for &bits in differing {
        // A full sketch says no more than that it is full.
        let bits = bits.min((words * WORD / 2) as u32 - 1);
        expected += expected_elements(words)[bits as usize] / differing.len() as f64;
        least = bits.max(least);
    }
    let least = f64::from(least);
    jaccard(least + 2.0 * ((expected - least) / 2.0).round().max(0.0), sizes)
}

/// The number of elements of which one expects each number of differing bits, below half of all bits. It is made by
/// multiplying alone, so that every machine makes the same.
fn expected_elements(words: usize) -> &'static [f64] {
    static TABLES: [OnceLock<Box<[f64]>>; MOST_WORDS + 1] = [const { OnceLock::new() }; MOST_WORDS + 1];
    TABLES[words].get_or_init(|| {
        let bits = (words * WORD) as f64;
        // The bits that n elements make differ: (1 − (1 − 2 / bits)ⁿ) · bits / 2.
        let (mut elements, mut stays, mut before, mut expected) = (0.0, 1.0, 0.0, 0.0);
        let of = |differing: usize| {
            let differing = differing as f64;
            while expected < differing {
                before = expected;
                stays *= 1.0 - 2.0 / bits;
                expected = (1.0 - stays) * bits / 2.0;
                elements += 1.0;
            }
            match expected > before {
                true => elements - (expected - differing) / (expected - before),
                false => elements,
            }
        };
        (0..words * WORD / 2).map(of).collect()
    })
}

/// The variance of the estimate by one odd sketch of `words` words, for two sets with `sum` elements together.
fn odd_variance(similarity: f64, words: usize, sum: f64) -> f64 {
    let bits = (words * WORD) as f64;
    let not_shared = (sum * (1.0 - similarity) / (1.0 + similarity)).round();
    let stays = power(1.0 - 2.0 / bits, 2 * not_shared as u64);
    let of_bits = (bits / 4.0 * (1.0 - stays) - not_shared * stays).max(0.0);
    // By how much the similarity falls for an element more that is not shared.
    let slope = 2.0 * sum / ((sum + not_shared) * (sum + not_shared));
    of_bits / stays * slope * slope
}

/// The mean of two estimates by `words` words each, weighted by their variances at about this similarity.
fn mean(odd: f32, minima: f32, words: usize, sizes: [u32; 2]) -> f32 {
    let [by_odd, by_minima] = [odd, minima].map(f64::from);
    let about = (by_odd + by_minima) / 2.0;
    if about >= 1.0 {
        return 1.0;
    }
    let of_odd = odd_variance(about, words, f64::from(sizes[0]) + f64::from(sizes[1]));
    let of_minima = (1.0 - about * about) / (words * WORD) as f64;
    // Where the odd sketch is full its variance is beyond all numbers.
    let weight = if of_odd.is_finite() { of_minima / (of_odd + of_minima) } else { 0.0 };
    (by_minima + weight * (by_odd - by_minima)) as f32
}

/// A power by multiplying alone, so that every machine computes the same.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut power, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            power *= square;
        }
        square *= square;
        left >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SplitMix64;
    use crate::minhash::{Family, MinHashParams};
    use crate::search::bands::Banding;
    use crate::sketch::TwoSketches;
    use proptest::prelude::*;

    fn sketcher(bits: usize, seed: u64) -> BitSketcher {
        let params = MinHashParams { permutations: bits, family: Family::FastSimilarity, seed };
        BitSketcher::new(Forms::BySize, MinHasher::new(params).unwrap(), seed)
    }

    /// Two sets of a size that share so many.
    fn sets(rng: &mut SplitMix64, sizes: [usize; 2], shared: usize) -> [Vec<u64>; 2] {
        let common: Vec<u64> = (0..shared).map(|_| rng.next_u64()).collect();
        sizes.map(|size| {
            let own = (shared..size).map(|_| rng.next_u64());
            common.iter().copied().chain(own).collect()
        })
    }

    fn estimated(sketcher: &mut BitSketcher, [a, b]: &[Vec<u64>; 2]) -> f32 {
        let [x, y] = [a, b].map(|set| sketcher.sketch(set));
        estimate(
            SetBits { words: &x, size: a.len() as u32, forms: sketcher.forms },
            SetBits { words: &y, size: b.len() as u32, forms: sketcher.forms },
        )
    }

    #[test]
    fn bits_estimate_the_coefficient_with_the_error_of_theory() {
        const BITS: usize = 512;
        let mut rng = SplitMix64::new(3);
        // Each form, within and near its bounds of 256 and 768 elements, and between two forms.
        for (sizes, shared, pairs, theory) in [
            ([20, 20], 18, 2_000, None),
            ([100, 100], 89, 2_000, None),
            ([250, 250], 222, 2_000, None),
            ([250, 250], 167, 2_000, None),
            ([380, 380], 338, 1_500, None),
            ([380, 380], 254, 1_500, None),
            ([740, 740], 658, 600, None),
            ([2_000, 2_000], 1_778, 200, None),
            ([240, 270], 226, 2_000, Some(odd_variance(0.8, 4, 510.0).sqrt())),
            ([740, 800], 684, 600, Some(one_bit::standard_error(0.8, BITS / 2))),
        ] {
            let truth = f64::from(shared as u32) / f64::from((sizes[0] + sizes[1] - shared) as u32);
            let theory = theory.unwrap_or_else(|| standard_error(truth, BITS, sizes[0] as u32));
            let errors: Vec<f64> = (0..pairs)
                .map(|seed| {
                    let sets = sets(&mut rng, sizes, shared);
                    f64::from(estimated(&mut sketcher(BITS, seed), &sets)) - truth
                })
                .collect();
            let n = errors.len() as f64;
            let mean = errors.iter().sum::<f64>() / n;
            let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / n).sqrt();
            // What is not linear in the bits leaves a bias, of a tenth of the error at most; and whole elements are
            // counted, which where few collide is worth more than no bias.
            let element = 2.0 / f64::from((sizes[0] + sizes[1] - shared) as u32);
            assert!(
                mean.abs() < 4.0 * theory / n.sqrt() + theory / 10.0 + element / 2.0,
                "{sizes:?} {shared}: bias {mean}"
            );
            assert!(
                deviation < 1.25 * theory && (sizes[0] < 200 || deviation > 0.8 * theory),
                "{sizes:?} {shared}: {deviation}, and {theory} by theory"
            );
        }
    }

    #[test]
    fn small_sets_are_estimated_far_better_than_by_minima() {
        for size in [50, 100, 300, 512] {
            assert!(standard_error(0.8, 1024, size) < 0.6 * one_bit::standard_error(0.8, 1024), "{size}");
        }
        for size in (10..6_000).step_by(10) {
            let error = standard_error(0.8, 1024, size);
            assert!(error < 1.07 * one_bit::standard_error(0.8, 1024), "{size}: {error}");
        }
        assert_eq!(largest_odd(1024), [512, 1536]);
        for (bits, size) in [(1024, 768), (64, 1), (192, 100), (128, 96)] {
            let [twice, half] = largest_odd(bits);
            let form = Form::of(size, bits / WORD, Forms::BySize);
            assert_eq!(form == Form::Twice, size <= twice, "{bits}");
            assert_eq!(
                (Form::of(half, bits / WORD, Forms::BySize) == Form::Half, half > 0),
                (half > 0, (bits / WORD).is_multiple_of(2))
            );
        }
    }

    #[test]
    fn what_is_expected_is_estimated() {
        for words in [1, 2, 8, MOST_WORDS] {
            let table = expected_elements(words);
            let bits = (words * WORD) as f64;
            assert_eq!(table.len(), words * WORD / 2);
            for (differing, &elements) in table.iter().enumerate() {
                let exactly = (1.0 - 2.0 * differing as f64 / bits).ln() / (1.0 - 2.0 / bits).ln();
                assert!(
                    (elements - exactly).abs() < 0.05 + exactly * 1e-3,
                    "{words} {differing} {elements} {exactly}"
                );
                assert!(elements > differing as f64 - 1e-6);
            }
            assert!(table.is_sorted());
        }
    }

    #[test]
    fn few_elements_are_estimated_exactly_unless_they_collide() {
        let (mut rng, mut exact) = (SplitMix64::new(5), 0);
        for seed in 0..400 {
            // 88 of 110 elements: 0.8 to the last bit.
            let sets = sets(&mut rng, [99, 99], 88);
            exact += u32::from(estimated(&mut sketcher(1024, seed), &sets) == 0.8);
        }
        // 22 elements and 512 bits: two meet in 37 of 100 sketches, and so in 14 of 100 in both.
        assert!((315..370).contains(&exact), "{exact} of 400");
    }

    #[test]
    fn nothing_and_the_same() {
        let none = SetBits::by_size(&[], 3);
        assert_eq!(estimate(none, none), 0.0);
        let empty = SetBits::by_size(&[0, 0], 0);
        assert_eq!(estimate(empty, empty), 1.0);
        let full = SetBits::by_size(&[u64::MAX, 0], 60);
        assert!(estimate(full, SetBits::by_size(&[0, u64::MAX], 60)) < 0.1);
        let large = SetBits::by_size(&[0, 0], 1_000);
        assert_eq!(estimate(empty, large), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn a_sieve_finds_all_that_pass(
            words in 1usize..18, largest in 1usize..1500, threshold in 0.0f32..=1.0,
            forms in prop::sample::select(vec![Forms::BySize, Forms::Minima, Forms::Values]), seed: u64,
        ) {
            let mut rng = SplitMix64::new(seed);
            let mut sketcher = sketcher(words * WORD, seed);
            sketcher.forms = forms;
            let hasher = MinHasher::new(MinHashParams { permutations: 2 * words, ..MinHashParams::default() });
            let (hasher, mut signature) = (hasher.unwrap(), vec![0; 2 * words]);
            // Families of sets that share more or less.
            let mut made = Vec::new();
            while made.len() < 120 {
                let base: Vec<u64> = (0..rng.below(largest as u64)).map(|_| rng.next_u64()).collect();
                let change = rng.unit();
                for _ in 0..1 + rng.below(20) {
                    let less = rng.unit() * change;
                    let stays = |_: &u64| rng.unit() >= less;
                    let mut set: Vec<u64> = base.iter().copied().filter(stays).collect();
                    set.extend((0..rng.below(1 + (base.len() / 8) as u64)).map(|_| rng.next_u64()));
                    let bits = match forms {
                        Forms::Values => {
                            hasher.sign(&set, &mut signature);
                            TwoSketches::of_signature(&signature, Banding { bands: 1, rows: 1 }).bits
                        }
                        _ => sketcher.sketch(&set),
                    };
                    made.push((set.len() as u32, bits));
                }
            }
            made.sort();
            let sets: Vec<SetBits<'_>> =
                made.iter().map(|(size, words)| SetBits { words, size: *size, forms: sketcher.forms }).collect();
            let sieve = Sieve::new(sets.clone());
            let mut found = vec![9];
            for &set in &sets {
                let naive: Vec<u32> = (0..)
                    .zip(&sets)
                    .filter(|&(_, &other)| estimate(set, other) >= threshold)
                    .map(|(at, _)| at)
                    .collect();
                sieve.near(set, threshold, &mut found);
                prop_assert_eq!(&found, &naive);
            }
        }

        #[test]
        fn forms_share_halves_and_estimates_are_symmetric(
            words in 1usize..20, sizes in prop::array::uniform2(0usize..900), share in 0.0..=1.0f64, seed: u64,
        ) {
            let mut rng = SplitMix64::new(seed);
            let shared = (share * sizes[0].min(sizes[1]) as f64) as usize;
            let [a, b] = sets(&mut rng, sizes, shared);
            let mut sketcher = sketcher(words * WORD, seed);
            if words % 2 == 0 {
                let [twice, half, minima] =
                    [Form::Twice, Form::Half, Form::Minima].map(|form| sketcher.sketch_as(form, &a));
                prop_assert_eq!(&half[..words / 2], &twice[..words / 2]);
                prop_assert_eq!(&half[words / 2..], &minima[words / 2..]);
            }
            let [x, y] = [&a, &b].map(|set| sketcher.sketch(set));
            let (x, y) = (SetBits { words: &x, size: a.len() as u32, forms: sketcher.forms }, SetBits { words: &y, size: b.len() as u32, forms: sketcher.forms });
            let there = estimate(x, y);
            prop_assert_eq!(there.to_bits(), estimate(y, x).to_bits());
            prop_assert_eq!(estimate(x, x), 1.0);
            prop_assert!((0.0..=1.0).contains(&there));
            // The order of the features does not matter.
            let turned: Vec<u64> = a.iter().rev().copied().collect();
            prop_assert_eq!(&sketcher.sketch(&turned)[..], x.words);
        }
    }
}
