//! What is said of rounds.

/// The middle one, or the mean of the two in the middle; nothing of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// The least and the largest; nothing of none.
pub fn range(values: impl IntoIterator<Item = f64>) -> Option<[f64; 2]> {
    let wider = |[least, most]: [f64; 2], [a, b]: [f64; 2]| [least.min(a), most.max(b)];
    values.into_iter().map(|value| [value; 2]).reduce(wider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(range([2.0, 3.0, 1.0]), Some([1.0, 3.0]));
        assert_eq!((median([]), range([])), (None, None));
    }
}
