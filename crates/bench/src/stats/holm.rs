//! Holm's step-down correction (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
//! Statistics 6, 1979): p-values such that calling everything below 0.05 a difference is wrong about anything in at most 5 %
//! of comparisons, whatever depends on what. Called once, by the analysis, over the whole declared family.

/// The adjusted p-values, in the order of the given ones. The smallest is multiplied by the size of the family, the next by
/// one less, and so on; none is below the one before it, none above 1.
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut ranked: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut so_far = 0.0f64;
    for (rank, (_, p)) in ranked.iter_mut().enumerate() {
        so_far = so_far.max(*p * (p_values.len() - rank) as f64).min(1.0);
        *p = so_far;
    }
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, p)| p).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: &[f64], wanted: &[f64]) {
        assert_eq!(got.len(), wanted.len());
        assert!(got.iter().zip(wanted).all(|(g, w)| (g - w).abs() < 1e-9), "{got:?}, not {wanted:?}");
    }

    #[test]
    fn by_hand() {
        // 4 x 0.005; 3 x 0.01; 2 x 0.03; then 1 x 0.04, which may not be below the one before.
        close(&adjusted(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        close(&adjusted(&[0.7, 0.6]), &[1.0, 1.0]);
        close(&adjusted(&[0.02, 0.02, 0.02]), &[0.06, 0.06, 0.06]);
        close(&adjusted(&[0.2]), &[0.2]);
        close(&adjusted(&[]), &[]);
    }

    #[test]
    fn a_published_example_s_values() {
        // The example of `padjust` in the reference of stdlib (stdlib.io, @stdlib/stats/padjust), whose fourth value is held
        // up by the one before it.
        close(&adjusted(&[0.319, 0.201, 0.4, 0.374, 0.113]), &[0.957, 0.804, 0.957, 0.957, 0.565]);
    }

    #[test]
    fn a_published_example_s_decisions() {
        // ETH Zurich, Applied Multivariate Statistics, multTesting.R: of five at 5 %, four are below it uncorrected, one is
        // rejected by Bonferroni and two by Holm.
        let p = [0.011, 0.02, 0.005, 0.13, 0.04];
        let rejected = |p: &[f64]| p.iter().filter(|p| **p < 0.05).count();
        assert_eq!((rejected(&p), rejected(&p.map(|p| p * 5.0)), rejected(&adjusted(&p))), (4, 1, 2));
    }

    #[test]
    fn a_published_table() {
        // Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57,
        // 1995, section 3.2: fifteen p-values of a trial of thrombolysis. Bonferroni's and Hochberg's methods reject the
        // same three at 0.05, and Holm's lies between the two.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let adjusted = adjusted(&p);
        close(&adjusted[..4], &[0.0015, 0.0056, 0.0247, 0.114]);
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 3);
    }
}
