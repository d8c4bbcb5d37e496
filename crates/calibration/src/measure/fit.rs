//! The parameters under which a model comes nearest to what was measured: the simplex of Nelder and Mead,
//! over logarithms, since costs are positive and errors are ratios.

const ROUNDS: usize = 1500;

/// Lowers `loss` from `start`, all of whose values are positive.
pub(crate) fn fit(start: &[f64], loss: &mut dyn FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut at = |x: &[f64]| {
        let values: Vec<f64> = x.iter().map(|x| x.exp()).collect();
        let loss = loss(&values);
        if loss.is_finite() { loss } else { f64::MAX }
    };
    let origin: Vec<f64> = start.iter().map(|x| x.ln()).collect();
    let mut simplex: Vec<(f64, Vec<f64>)> = vec![(at(&origin), origin.clone())];
    for i in 0..origin.len() {
        let mut corner = origin.clone();
        corner[i] += 0.4;
        simplex.push((at(&corner), corner));
    }
    for _ in 0..ROUNDS {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = simplex.len() - 1;
        if simplex[last].0 - simplex[0].0 < 1e-9 {
            break;
        }
        let centre: Vec<f64> = (0..origin.len())
            .map(|i| simplex[..last].iter().map(|(_, x)| x[i]).sum::<f64>() / last as f64)
            .collect();
        let along = |by: f64| -> Vec<f64> {
            let worst = &simplex[last].1;
            centre.iter().zip(worst).map(|(c, w)| c + by * (c - w)).collect()
        };
        let reflected = along(1.0);
        let loss = at(&reflected);
        let better = if loss < simplex[0].0 {
            let far = along(2.0);
            let loss_far = at(&far);
            Some(if loss_far < loss { (loss_far, far) } else { (loss, reflected) })
        } else if loss < simplex[last - 1].0 {
            Some((loss, reflected))
        } else {
            let near = along(if loss < simplex[last].0 { 0.5 } else { -0.5 });
            let loss_near = at(&near);
            (loss_near < simplex[last].0.min(loss)).then_some((loss_near, near))
        };
        match better {
            Some(better) => simplex[last] = better,
            None => {
                let best = simplex[0].1.clone();
                for corner in &mut simplex[1..] {
                    corner.1.iter_mut().zip(&best).for_each(|(x, b)| *x = (*x + b) / 2.0);
                    corner.0 = at(&corner.1);
                }
            }
        }
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    simplex[0].1.iter().map(|x| x.exp()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_what_made_the_values() {
        let truth = [3.0, 0.2, 40.0];
        let model = |p: &[f64], x: f64| p[0] + p[1] * x + p[2] / x;
        let found = super::fit(&[1.0, 1.0, 1.0], &mut |p| {
            (1..40)
                .map(|x| (model(p, x.into()) / model(&truth, x.into())).ln().powi(2))
                .sum::<f64>()
        });
        for (found, truth) in found.iter().zip(truth) {
            assert!((found / truth - 1.0).abs() < 0.01, "{found} {truth}");
        }
    }
}
