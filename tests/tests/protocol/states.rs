//! Exhaustive search of a model's states.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A model: a state goes on by any of its steps, in any order.
pub(crate) trait Model: Clone + Eq + Hash + Debug {
    /// What a variant leaves out.
    type Without: Copy;

    /// All states that one step leads to.
    fn next(&self, without: Self::Without) -> Vec<Self>;

    /// What must not be, if this state is so.
    fn fault(&self) -> Option<&'static str> {
        None
    }

    /// Has everything ended that must end?
    fn is_done(&self) -> bool;
}

/// No step is left, and something has not ended.
pub(crate) const STUCK: &str = "stuck";
/// Steps are left, and none leads to the end.
pub(crate) const NEVER_DONE: &str = "never done";

/// Searches all states from `first`; their number. An error is the first fault found: one of the model, [`STUCK`], or
/// [`NEVER_DONE`].
pub(crate) fn search<M: Model>(first: M, without: M::Without) -> Result<usize, &'static str> {
    let mut known = HashMap::from([(first.clone(), 0)]);
    // Of each state those that lead to it, the first of them the one by which it was found.
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let (mut states, mut at, mut ends) = (vec![first], 0, Vec::new());
    while let Some(state) = states.get(at).cloned() {
        let next = state.next(without);
        let is_done = state.is_done();
        if is_done {
            ends.push(at);
        }
        if let Some(why) = state.fault().or((next.is_empty() && !is_done).then_some(STUCK)) {
            return Err(shown(&states, &before, at, why));
        }
        for state in next {
            let number = *known.entry(state.clone()).or_insert(states.len());
            if number == states.len() {
                states.push(state);
                before.push(Vec::new());
            }
            before[number].push(at);
        }
        at += 1;
    }
    // From each state the end can be reached.
    let mut leads = vec![false; states.len()];
    while let Some(end) = ends.pop() {
        if !std::mem::replace(&mut leads[end], true) {
            ends.extend(&before[end]);
        }
    }
    match leads.iter().position(|leads| !leads) {
        Some(lost) => Err(shown(&states, &before, lost, NEVER_DONE)),
        None => Ok(states.len()),
    }
}

/// Prints how a state was reached.
fn shown<M: Model>(states: &[M], before: &[Vec<usize>], mut at: usize, why: &'static str) -> &'static str {
    let mut path = vec![at];
    while at != 0 {
        at = before[at][0];
        path.push(at);
    }
    path.iter().rev().for_each(|at| println!("{:?}", states[*at]));
    println!("{why}");
    why
}

/// Without anything left out the model holds, in at least so many states.
pub(crate) fn holds<M: Model>(first: M, least: usize)
where
    M::Without: Default,
{
    let states = search(first, M::Without::default()).expect("the model holds");
    println!("{states} states");
    assert!(states >= least, "{states} states are not all");
}
