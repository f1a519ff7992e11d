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
    fn a_published_table_s_decisions() {
        // The example of `Holm` in the reference manual of the R package HDLSSkST 2.1.0 (CRAN): at 0.05 the third and the
        // last of seven are rejected.
        let p = [0.50, 0.01, 0.001, 0.69, 0.02, 0.05, 0.0025];
        let rejected: Vec<u8> = adjusted(&p).iter().map(|p| u8::from(*p <= 0.05)).collect();
        assert_eq!(rejected, [0, 0, 1, 0, 0, 0, 1]);
    }
}
