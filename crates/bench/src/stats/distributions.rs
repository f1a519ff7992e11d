//! The two distributions that the interval needs: the tail of the normal, and the quantile of Student's t. Called by
//! [`super::bootstrap`] only.

use std::f64::consts::PI;

/// The part of the standard normal distribution below `-x`, for `x` of 0 or more (Abramowitz and Stegun 26.2.11). Beyond 6
/// it is taken as 0, which it is to nine places.
pub fn normal_tail(x: f64) -> f64 {
    if x > 6.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut odd) = (x, x, 3.0);
    while term > sum * 1e-17 {
        term *= x * x / odd;
        sum += term;
        odd += 2.0;
    }
    0.5 - sum * (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The `t` that Student's distribution with this many degrees of freedom (1 or more) exceeds in size with probability
/// `two_sided`, between 0 and 1.
pub fn t_quantile(two_sided: f64, degrees: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if 1.0 - t_within(middle, degrees) > two_sided {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The probability that Student's t lies between `-t` and `t` (Abramowitz and Stegun 26.7.3 and 26.7.4).
fn t_within(t: f64, degrees: u32) -> f64 {
    let theta = (t / f64::from(degrees).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let odd = degrees % 2 == 1;
    let (mut term, mut sum, mut power) = if odd { (cos, 0.0, 1) } else { (1.0, 0.0, 0) };
    while power <= i64::from(degrees) - 2 {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    if odd { 2.0 / PI * (theta + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_tail_is_the_table_s() {
        // Abramowitz and Stegun, table 26.1.
        for (x, p) in [(0.0, 0.5), (1.0, 0.158_655_254), (1.959_964, 0.025), (3.0, 0.001_349_898), (4.0, 3.167_124e-5)]
        {
            assert!((normal_tail(x) - p).abs() < 2e-9, "{x}: {}", normal_tail(x));
        }
        assert_eq!(normal_tail(1e300), 0.0);
    }

    #[test]
    fn student_s_quantiles_are_the_table_s() {
        // The usual table, two-sided 5 %, and one of two-sided 1 %.
        let table = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (30, 2.042)];
        for (degrees, t) in table {
            assert!((t_quantile(0.05, degrees) - t).abs() < 6e-4, "{degrees}: {}", t_quantile(0.05, degrees));
        }
        assert!((t_quantile(0.01, 7) - 3.499).abs() < 6e-4);
        assert!((t_quantile(0.05, 9_999) - 1.960_2).abs() < 6e-4);
    }
}
