//! Arrays, coarrays and their elements behind the end of what has them: a scope, a program, a call that other
//! nodes write in, `keep`.
use hamr_comm::Task;
use hamr_xacc::prelude::*;
use hamr_xacc::{SharedArray, program};

fn an_array_as_the_scopes_result(w: &mut Spmd, grid: Shape<'_, 1>) -> Result<f32, Fault> {
    let p = w.scope(|w| grid.zeros::<f32>(w))?;
    Ok(p[[0]])
}

fn an_array_in_a_variable_from_outside(w: &mut Spmd, grid: Shape<'_, 1>) -> Result<(), Fault> {
    let mut last = None;
    w.scope(|w| {
        last = Some(grid.zeros::<f32>(w)?);
        Ok(())
    })?;
    drop(last);
    Ok(())
}

fn a_coarray_in_the_place_of_one_from_outside<'c>(w: &mut Spmd<'c>, p: &mut Coarray<'c, f32, 1>) -> Result<(), Fault> {
    w.scope(|w| {
        *p = w.own([8]).coarray(w)?;
        Ok(())
    })
}

fn memory_of_this_node(w: &mut Spmd) -> Result<u32, Fault> {
    let table = w.scope(|w| w.local::<u32>(8))?;
    Ok(table[0])
}

fn an_array_behind_its_program(task: &mut Task, grid: Shape<'_, 1>) -> Result<f32, Fault> {
    let p = program(task, |w| grid.zeros::<f32>(w))?;
    Ok(p[[0]])
}

fn the_spmd_outside_of_the_scope(w: &mut Spmd, grid: Shape<'_, 1>) -> Result<(), Fault> {
    w.scope(|_| grid.zeros::<f32>(w).map(drop))
}

fn elements_across_a_reflect(w: &mut Spmd, p: &mut Array<f32, 1>) -> Result<f32, Fault> {
    let row = p.local();
    p.reflect(w)?;
    Ok(row[0])
}

fn a_shared_array_across_a_barrier(w: &mut Spmd, p: &mut SharedArray<f32, 1>) -> Result<(), Fault> {
    let mut view = p.view_mut(w);
    w.barrier()?;
    view.fill(1.0);
    Ok(())
}

fn an_array_that_is_kept<'c>(w: &mut Spmd<'c>, p: Array<'c, f32, 1>) -> Result<f32, Fault> {
    p.keep(w)?;
    Ok(p[[0]])
}

fn main() {}
