//! The matrix of NPB CG, and what its programs are given and return.
use core::ops::Range;
use hamr_xacc::prelude::*;

const RCOND: f64 = 0.1;

/// A size of the problem.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub struct Class {
    /// Rows of the matrix.
    pub na: i64,
    /// Elements of each random vector.
    pub nonzer: u32,
    /// Iterations.
    pub niter: u32,
    /// Subtracted from the diagonal.
    pub shift: f64,
}

impl Class {
    /// The class of this name, and its eigenvalue.
    pub fn of(name: &str) -> Option<(Self, f64)> {
        let (na, nonzer, niter, shift, zeta) = match name {
            "S" => (1_400, 7, 15, 10.0, 8.5971775078648),
            "W" => (7_000, 8, 15, 12.0, 10.362595087124),
            "A" => (14_000, 11, 15, 20.0, 17.130235054029),
            "B" => (75_000, 13, 75, 60.0, 22.712745482631),
            "C" => (150_000, 15, 75, 110.0, 28.973605592845),
            "D" => (1_500_000, 21, 100, 500.0, 52.514532105794),
            "E" => (9_000_000, 26, 100, 1500.0, 77.522164599383),
            _ => return None,
        };
        Some((Self { na, nonzer, niter, shift }, zeta))
    }

    /// Bytes that the matrix and the vectors of all nodes need together.
    pub fn bytes(&self) -> u64 {
        let row = u64::from(self.nonzer + 1).pow(2);
        self.na as u64 * (row * 16 + 64)
    }
}

/// What the iterations came to.
#[derive(Clone, Copy, Default, PartialEq, Debug, Migratable)]
pub struct Outcome {
    /// The eigenvalue.
    pub zeta: f64,
    /// The norm of what is left in the last iteration.
    pub rnorm: f64,
    /// How long they took.
    pub seconds: f64,
}

/// NPB's random numbers: a sequence modulo 2^46, exact in integers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(1_220_703_125) & ((1 << 46) - 1);
        self.0 as f64 / (1u64 << 46) as f64
    }
}

/// All elements of the matrix: the sum of outer products of random sparse vectors, and a shifted diagonal.
fn elements(class: &Class, mut take: impl FnMut(i64, i64, f64)) {
    let (mut random, mut v) = (Random(314_159_265), heapless::Vec::<(i64, f64), 32>::new());
    let range = (class.na as u64).next_power_of_two() as f64;
    let (ratio, mut weight) = (powf(RCOND, 1.0 / class.na as f64), 1.0);
    random.next();
    for row in 0..class.na {
        v.clear();
        while v.len() < class.nonzer as usize {
            let (value, at) = (random.next(), (random.next() * range) as i64);
            if at < class.na && v.iter().all(|e| e.0 != at) {
                v.extend([(at, value)]);
            }
        }
        match v.iter_mut().find(|e| e.0 == row) {
            Some(own) => own.1 = 0.5,
            None => v.extend([(row, 0.5)]),
        }
        for &(j, vj) in &v {
            for &(i, vi) in &v {
                let diagonal = if i == row && j == row { RCOND - class.shift } else { 0.0 };
                take(i, j, vi * (weight * vj) + diagonal);
            }
        }
        weight *= ratio;
    }
}

/// This node's part of the matrix, row after row; columns count from the first one here.
pub struct Matrix<'c> {
    start: &'c mut [u32],
    column: &'c mut [u32],
    value: &'c mut [f64],
}

impl<'c> Matrix<'c> {
    /// Makes the part in these rows and columns, in memory of this node.
    ///
    /// # Errors
    /// There is no room.
    pub fn make(w: &mut Spmd<'c>, class: &Class, rows: Range<i64>, columns: Range<i64>) -> Result<Self, Fault> {
        let n = (rows.end - rows.start) as usize;
        let here = |i, j| {
            let inside = rows.contains(&i) && columns.contains(&j);
            inside.then(|| ((i - rows.start) as usize, (j - columns.start) as u32))
        };
        let start = w.local::<u32>(n + 1)?;
        elements(class, |i, j, _| here(i, j).into_iter().for_each(|(i, _)| start[i + 1] += 1));
        for i in 0..n {
            start[i + 1] += start[i];
        }
        let room = start[n] as usize;
        let (column, value, used) = (w.local::<u32>(room)?, w.local::<f64>(room)?, w.local::<u32>(n)?);
        elements(class, |i, j, v| {
            let Some((i, j)) = here(i, j) else { return };
            let (first, end) = (start[i] as usize, (start[i] + used[i]) as usize);
            match column[first..end].binary_search(&j) {
                Ok(at) => value[first + at] += v,
                Err(at) => {
                    let at = first + at;
                    column.copy_within(at..end, at + 1);
                    value.copy_within(at..end, at + 1);
                    (column[at], value[at]) = (j, v);
                    used[i] += 1;
                }
            }
        });
        let mut to = 0;
        for i in 0..n {
            let from = start[i] as usize..(start[i] + used[i]) as usize;
            column.copy_within(from.clone(), to);
            value.copy_within(from, to);
            start[i] = to as u32;
            to += used[i] as usize;
        }
        start[n] = to as u32;
        Ok(Self { start, column, value })
    }

    /// `y = A x`, with this node's part of each. Four sums: an addition need not wait for the one before.
    pub fn times(&self, x: &[f64], y: &mut [f64]) {
        for (y, row) in y.iter_mut().zip(self.start.windows(2)) {
            let row = row[0] as usize..row[1] as usize;
            let mut sums = [0.0; 4];
            let (values, last) = self.value[row.clone()].as_chunks::<4>();
            let (columns, last_columns) = self.column[row].as_chunks::<4>();
            for (values, columns) in values.iter().zip(columns) {
                for ((sum, a), j) in sums.iter_mut().zip(values).zip(columns) {
                    *sum += a * x[*j as usize];
                }
            }
            for ((sum, a), j) in sums.iter_mut().zip(last).zip(last_columns) {
                *sum += a * x[*j as usize];
            }
            *y = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
}
