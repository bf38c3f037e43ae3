//! The weight vector of a SimHash in 64 bytes, as it is kept in a sketch.

use super::BITS;

/// A weight vector with a byte for each component: its sign and the square root of its magnitude (ours).
///
/// The root keeps the resolution where it matters: components near zero, which flip first, are
/// distinguished down to 0.0003, components near one to 0.03. Magnitudes above
/// [`QuantisedWeights::LARGEST`] are held as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct QuantisedWeights([i8; BITS]);

impl QuantisedWeights {
    /// The largest magnitude that is distinguished. The components of a SimHash have a variance near 1.
    pub const LARGEST: f32 = 4.0;

    /// Rounds a weight vector. The order of magnitudes is kept, except that near ones become equal; signs are
    /// kept, except that magnitudes below 0.00007 become 0.
    pub fn new(weights: &[f32; BITS]) -> Self {
        Self(weights.map(|w| {
            let root = (w.abs().min(Self::LARGEST) / Self::LARGEST).sqrt() * 127.0;
            root.round().copysign(w) as i8
        }))
    }

    /// The weights, up to the rounding.
    pub fn weights(&self) -> [f32; BITS] {
        self.0.map(|q| {
            let root = f32::from(q) / 127.0;
            (root * root * Self::LARGEST).copysign(root)
        })
    }

    /// The weights that have these [bytes](Self::bytes). −128, which no weight gives, is taken for −127.
    pub fn from_bytes(bytes: [i8; BITS]) -> Self {
        Self(bytes.map(|byte| byte.max(-i8::MAX)))
    }

    /// The bytes: the sign of a component, and 127·√(magnitude / [`LARGEST`](Self::LARGEST)).
    pub fn bytes(&self) -> &[i8; BITS] {
        &self.0
    }

    /// The cosine of the angle between two weight vectors, −1 to 1, which estimates the cosine similarity of the
    /// documents; 0 where one is zero.
    pub fn cosine(&self, other: &Self) -> f32 {
        let (a, b) = (self.weights(), other.weights());
        let dot = |x: &[f32; BITS], y: &[f32; BITS]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
        let norms = (dot(&a, &a) * dot(&b, &b)).sqrt();
        if norms > 0.0 { dot(&a, &b) / norms } else { 0.0 }
    }

    /// The share of the weight that stands behind equal bits, 0 to 1; 0 where both vectors are zero (ours). It is
    /// 1 − Σ over differing bits (|aⱼ| + |bⱼ|) / Σ over all bits (|aⱼ| + |bⱼ|).
    pub fn agreement(&self, other: &Self) -> f32 {
        let (a, b) = (self.weights(), other.weights());
        let (mut differing, mut all) = (0.0, 0.0);
        for (a, b) in a.iter().zip(&b) {
            let weight = a.abs() + b.abs();
            all += weight;
            differing += if (*a > 0.0) == (*b > 0.0) { 0.0 } else { weight };
        }
        if all > 0.0 { 1.0 - differing / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_and_nearness_are_kept(weights in prop::array::uniform32(-4.0f32..4.0)) {
            let weights: [f32; BITS] = std::array::from_fn(|j| weights[j / 2] * if j % 2 == 0 { 1.0 } else { 0.01 });
            let quantised = QuantisedWeights::new(&weights);
            let back = quantised.weights();
            for i in 0..BITS {
                // A step of the root by half a 127th, at most.
                prop_assert!((back[i].abs().sqrt() - weights[i].abs().sqrt()).abs() <= 1.01 / 127.0);
                prop_assert!(back[i] == 0.0 || back[i].signum() == weights[i].signum());
                for j in 0..BITS {
                    prop_assert!(weights[i].abs() > weights[j].abs() || back[i].abs() <= back[j].abs());
                }
            }
            prop_assert_eq!(QuantisedWeights::new(&back), quantised);
            prop_assert_eq!(QuantisedWeights::from_bytes(*quantised.bytes()), quantised);
            let same = quantised.cosine(&quantised);
            prop_assert!(same == 0.0 || (same - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn agreement_counts_the_weight_of_differing_bits() {
        let vector = |first: f32| {
            let mut weights = [0.0; BITS];
            (weights[0], weights[1]) = (first, 4.0);
            QuantisedWeights::new(&weights)
        };
        assert_eq!(vector(1.0).agreement(&vector(1.0)), 1.0);
        // 1 + 1 of 1 + 1 + 4 + 4, up to the rounding of the bytes.
        assert!((vector(1.0).agreement(&vector(-1.0)) - 0.8).abs() < 0.01);
        assert_eq!(QuantisedWeights::new(&[0.0; BITS]).agreement(&QuantisedWeights::new(&[0.0; BITS])), 0.0);
    }

    #[test]
    fn large_weights_and_zeros() {
        let mut weights = [0.0; BITS];
        (weights[0], weights[1]) = (9.0, -9.0);
        let back = QuantisedWeights::new(&weights).weights();
        assert_eq!((back[0], back[1], back[2]), (4.0, -4.0, 0.0));
        assert_eq!(QuantisedWeights::from_bytes([i8::MIN; BITS]).weights(), [-4.0; BITS]);
        assert_eq!(QuantisedWeights::new(&[0.0; BITS]).cosine(&QuantisedWeights::new(&weights)), 0.0);
    }
}
