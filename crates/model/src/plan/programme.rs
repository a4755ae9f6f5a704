//! Linear programmes: the best mixture of alternatives, and what each limit costs.
//!
//! maximise gain·x where every row·x is at most its limit, x ≥ 0, and, if a total is given, the x add up to it.
//!
//! **Prices.** The price of a limit is what one more unit of it would add to the value. The solver (`microlp`, a simplex) does not say them, so the
//! dual programme is solved as well: minimise limits·y (+ total·z) where every column's price is at least its gain. Both values agree, which is
//! asserted. Where several limits bind at once there are several right prices; one of them is said.
//!
//! Cost: some dozens of rows and a handful of variables: tens of microseconds.

use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, Variable};

/// A programme.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Programme {
    /// Of a unit of each variable.
    pub gain: Vec<f64>,
    /// What a unit of each variable takes of each limit.
    pub rows: Vec<Vec<f64>>,
    /// How much there is.
    pub limits: Vec<f64>,
    /// What the variables add up to, if that is given.
    pub total: Option<f64>,
}

/// Its best point.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// What it gains.
    pub value: f64,
    /// Where.
    pub at: Vec<f64>,
    /// Of one more unit of each limit.
    pub prices: Vec<f64>,
}

/// Coefficients this much smaller than the largest of their row are nothing: the solver wants magnitudes that are near each other.
const NOTHING: f64 = 1e-7;

impl Programme {
    /// The best point; `None` where nothing satisfies the limits.
    ///
    /// # Errors
    /// The solver fails or there is no bound: a sentence.
    pub fn solve(&self) -> Result<Option<Optimum>, String> {
        let Some((value, at)) = self.point()? else { return Ok(None) };
        let (bound, prices) = self.dual()?;
        let near = (bound - value).abs() <= 1e-6 * value.abs().max(1.0);
        assert!(near, "a linear programme and its dual agree: {value} and {bound}");
        Ok(Some(Optimum { value, at, prices }))
    }

    /// The best point without prices: what it gains, and where.
    ///
    /// # Errors
    /// See [`Programme::solve`].
    pub fn point(&self) -> Result<Option<(f64, Vec<f64>)>, String> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let of = |gain: &f64| problem.add_var(*gain, (0.0, f64::INFINITY));
        let variables: Vec<Variable> = self.gain.iter().map(of).collect();
        for (row, limit) in self.rows.iter().zip(&self.limits) {
            problem.add_constraint(terms(&variables, row), ComparisonOp::Le, *limit);
        }
        if let Some(total) = self.total {
            problem.add_constraint(terms(&variables, &vec![1.0; variables.len()]), ComparisonOp::Eq, total);
        }
        match problem.solve() {
            Err(Error::Infeasible) => Ok(None),
            solved => solution(solved, &variables).map(Some),
        }
    }

    fn dual(&self) -> Result<(f64, Vec<f64>), String> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let of = |limit: &f64| problem.add_var(*limit, (0.0, f64::INFINITY));
        let mut prices: Vec<Variable> = self.limits.iter().map(of).collect();
        let free = (f64::NEG_INFINITY, f64::INFINITY);
        prices.extend(self.total.map(|total| problem.add_var(total, free)));
        for (column, gain) in self.gain.iter().enumerate() {
            let mut takes: Vec<f64> = self.rows.iter().map(|row| row[column]).collect();
            takes.extend(self.total.map(|_| 1.0));
            problem.add_constraint(terms(&prices, &takes), ComparisonOp::Ge, *gain);
        }
        let (value, mut found) = solution(problem.solve(), &prices)?;
        found.truncate(self.limits.len());
        Ok((value, found))
    }
}

fn terms(variables: &[Variable], factors: &[f64]) -> Vec<(Variable, f64)> {
    let largest = factors.iter().fold(0.0, |most: f64, factor| most.max(factor.abs()));
    let both = variables.iter().zip(factors).map(|(variable, factor)| (*variable, *factor));
    both.filter(|(_, factor)| factor.abs() > NOTHING * largest).collect()
}

fn solution(
    solved: Result<microlp::SolveOutcome, Error>,
    variables: &[Variable],
) -> Result<(f64, Vec<f64>), String> {
    let solved = solved.map_err(|error| format!("the linear programme was not solved: {error}"))?;
    let solved = solved.into_solution().map_err(|_| "the linear programme was interrupted".to_string())?;
    // The solver's tolerance lets a nought be a little less.
    let values = variables.iter().map(|variable| solved.var_value(*variable)).collect();
    Ok((solved.objective(), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn solve(programme: &Programme) -> Optimum {
        programme.solve().expect("it is solved").expect("there is a point")
    }

    #[test]
    fn two_goods_of_a_textbook() {
        // maximise 3x + 5y; x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18 (Hillier and Lieberman): 36 at (2, 6), prices 0, 3/2, 1.
        let rows = vec![vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]];
        let found =
            solve(&Programme { gain: vec![3.0, 5.0], rows, limits: vec![4.0, 12.0, 18.0], total: None });
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&[found.value], &[36.0]) && near(&found.at, &[2.0, 6.0]), "{found:?}");
        assert!(near(&found.prices, &[0.0, 1.5, 1.0]), "{found:?}");
    }

    #[test]
    fn a_total_is_kept_and_what_cannot_be_is_said() {
        // The cheaper of two goods is limited: 3 of it, the rest of the other. One more of it saves 2 − 1.
        let programme = |total| Programme {
            gain: vec![-1.0, -2.0],
            rows: vec![vec![1.0, 0.0], vec![0.0, 1.0]],
            limits: vec![3.0, 5.0],
            total: Some(total),
        };
        let found = solve(&programme(4.0));
        assert!((found.value + 5.0).abs() < 1e-9 && (found.prices[0] - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(programme(9.0).solve(), Ok(None));
        let unbounded = Programme { gain: vec![1.0], ..Programme::default() };
        assert!(unbounded.solve().is_err());
    }

    proptest! {
        #[test]
        fn prices_are_what_a_little_more_of_a_limit_adds(
            rows in proptest::collection::vec(proptest::collection::vec(0.05f64..1.0, 3), 1..5),
            limits in proptest::collection::vec(0.5f64..2.0, 5),
        ) {
            let limits = limits[..rows.len()].to_vec();
            let programme = Programme { gain: vec![1.0; 3], rows, limits, total: None };
            let found = solve(&programme);
            prop_assert!(found.at.iter().all(|x| *x > -1e-9));
            for (at, price) in found.prices.iter().enumerate() {
                let step = 1e-5;
                let moved = |by: f64| {
                    let mut other = programme.clone();
                    other.limits[at] += by;
                    solve(&other).value
                };
                // At a corner the price lies between the two slopes.
                let (more, less) = ((moved(step) - found.value) / step, (found.value - moved(-step)) / step);
                prop_assert!(more - 1e-3 <= *price && *price <= less + 1e-3, "{more} ≤ {price} ≤ {less}");
            }
        }
    }
}
