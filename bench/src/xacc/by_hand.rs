//! What the programs are compared with, as it is written for threads: each has its part of the
//! arrays, and copies what it needs of the other's.

use super::super::stats::Spell;
use hamr_comm::Fault;
use hamr_programs::cg::Class;
use hamr_programs::cg_matrix::Matrix;
use hamr_xacc::prelude::*;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A line with a word.
#[repr(align(128))]
struct Line(AtomicU32);

static FLAGS: [Line; 2] = [const { Line(AtomicU32::new(0)) }; 2];
/// Numbers that the two tell each other, by exchange, in turn.
static NUMBERS: [[AtomicU64; 4]; 2] = [const { [const { AtomicU64::new(0) }; 4] }; 2];
/// What each has for the other: planes of a field, parts of a vector.
static PLANES: [Mutex<Vec<f32>>; 2] = [const { Mutex::new(Vec::new()) }; 2];
static PARTS: [Mutex<Vec<f64>>; 2] = [const { Mutex::new(Vec::new()) }; 2];

/// How long one waits for the other, which may have failed.
const LIMIT: Duration = Duration::from_secs(60);

/// Puts this thread on its processor.
pub(super) fn pin(processors: [usize; 2], me: u32) -> Result<(), Fault> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processors[me as usize % 2]);
    rustix::thread::sched_setaffinity(None, &set).map_err(|_| Fault::msg("the processor cannot be set"))
}

/// Two flags, each in its line.
pub(super) struct Exchange {
    me: usize,
    count: u32,
}

impl Exchange {
    /// Of thread 0 or 1.
    pub(super) fn new(me: u32) -> Self {
        let me = me as usize % 2;
        Self { me, count: FLAGS[me].0.load(Ordering::Relaxed) }
    }

    /// Sets one, and waits for the other.
    fn exchange(&mut self) -> Result<(), Fault> {
        self.exchange_by(true)
    }

    /// The same, with a pause between looks or without.
    pub(super) fn exchange_by(&mut self, paused: bool) -> Result<(), Fault> {
        self.set();
        self.wait(paused)
    }

    /// Near or far: there and back, one behind the other.
    pub(super) fn spell(&mut self) -> Result<Spell, Fault> {
        const TURNS: u32 = 200;
        self.exchange()?;
        let begin = Instant::now();
        for _ in 0..TURNS {
            if self.me == 0 {
                self.exchange()?;
            } else {
                self.count = self.count.wrapping_add(1);
                self.wait(true)?;
                FLAGS[self.me].0.store(self.count, Ordering::Release);
            }
        }
        Ok(Spell::of(begin.elapsed().as_nanos() as f64 / f64::from(TURNS)))
    }

    fn set(&mut self) {
        self.count = self.count.wrapping_add(1);
        FLAGS[self.me].0.store(self.count, Ordering::Release);
    }

    fn wait(&self, paused: bool) -> Result<(), Fault> {
        let (mut turns, mut begin) = (0u32, None);
        // The other side may be a step ahead.
        while (FLAGS[1 - self.me].0.load(Ordering::Acquire).wrapping_sub(self.count) as i32) < 0 {
            if paused {
                spin_loop();
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(1 << 20) && begin.get_or_insert_with(Instant::now).elapsed() > LIMIT {
                return Err(Fault::msg("the other thread does not come"));
            }
        }
        Ok(())
    }

    /// The sums of both threads' numbers.
    fn sum<const N: usize>(&mut self, mine: [f64; N]) -> Result<[f64; N], Fault> {
        let at = (self.count % 2) as usize * 2;
        for (to, x) in NUMBERS[self.me][at..].iter().zip(mine) {
            to.store(x.to_bits(), Ordering::Relaxed);
        }
        self.exchange()?;
        let mut sums = [0.0; N];
        for (i, sum) in sums.iter_mut().enumerate() {
            let of = |thread: usize| f64::from_bits(NUMBERS[thread][at + i].load(Ordering::Relaxed));
            *sum = of(0) + of(1);
        }
        Ok(sums)
    }
}

/// Both threads together, or one alone.
struct Team {
    flags: Exchange,
    threads: usize,
}

impl Team {
    fn new(w: &Spmd<'_>) -> Self {
        Self { flags: Exchange::new(w.me() as u32), threads: w.size() as usize }
    }

    fn sum<const N: usize>(&mut self, mine: [f64; N]) -> Result<[f64; N], Fault> {
        if self.threads == 1 { Ok(mine) } else { self.flags.sum(mine) }
    }

    /// Gives `mine` to the other thread, and takes what that has.
    fn swap<T: Copy>(&mut self, slots: &[Mutex<Vec<T>>; 2], mine: &[T], theirs: &mut [T]) -> Result<(), Fault> {
        if self.threads == 1 {
            return Ok(());
        }
        {
            let mut slot = slots[self.flags.me].lock().unwrap_or_else(PoisonError::into_inner);
            slot.clear();
            slot.extend_from_slice(mine);
        }
        self.flags.exchange()?;
        {
            let slot = slots[1 - self.flags.me].lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slot.get(..theirs.len()).ok_or_else(|| Fault::msg("the other thread has less"))?;
            theirs.copy_from_slice(slot);
        }
        self.flags.exchange()
    }
}

/// Two vectors.
pub(super) struct Vectors(Vec<f64>, Vec<f64>);

impl Vectors {
    pub(super) fn new(n: usize) -> Self {
        Self(vec![1.0; n], vec![0.5; n])
    }

    #[inline(never)]
    pub(super) fn axpy(&mut self, a: f64) {
        self.1.iter_mut().zip(&self.0).for_each(|(y, x)| *y += a * x);
    }

    /// In eight sums.
    #[inline(never)]
    pub(super) fn dot(&self) -> f64 {
        let (x, y) = (self.0.as_chunks::<8>(), self.1.as_chunks::<8>());
        let mut sums = [0.0; 8];
        for (x, y) in x.0.iter().zip(y.0) {
            sums.iter_mut().zip(x).zip(y).for_each(|((sum, x), y)| *sum += x * y);
        }
        x.1.iter().zip(y.1).fold(sums.iter().sum(), |sum, (x, y)| sum + x * y)
    }
}

/// What each has written for the other.
static WRITTEN: [Mutex<Vec<u8>>; 2] = [const { Mutex::new(Vec::new()) }; 2];
/// Bytes of a line.
const LINE: usize = 64;

/// Memory to copy.
pub(super) struct Copies(Vec<u8>, Vec<u8>);

impl Copies {
    pub(super) fn new() -> Self {
        Self(vec![1; 8 << 20], vec![2; 8 << 20])
    }

    pub(super) fn copy(&mut self, bytes: usize) {
        self.1[..bytes].copy_from_slice(&self.0[..bytes]);
        black_box(&mut self.1);
    }
}

impl Copies {
    /// Nanoseconds of a copy of so many bytes, into each line of which the other thread has just written.
    pub(super) fn fetch(&mut self, flags: &mut Exchange, bytes: usize) -> Result<f64, Fault> {
        {
            let mut mine = WRITTEN[flags.me].lock().unwrap_or_else(PoisonError::into_inner);
            mine.resize(bytes, 0);
            mine.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        flags.exchange()?;
        let ns = {
            let theirs = WRITTEN[1 - flags.me].lock().unwrap_or_else(PoisonError::into_inner);
            let begin = Instant::now();
            self.1[..bytes].copy_from_slice(&theirs);
            black_box(&mut self.1);
            begin.elapsed().as_nanos() as f64
        };
        flags.exchange()?;
        Ok(ns)
    }
}

/// A row of the neighbours of a point: the field at offsets in dimensions 0 and 1.
struct Rows<'a>([[&'a [f32]; 3]; 3]);

/// One row of Himeno's loop; the sum of the squares. `coefficients` are a, b, c, wrk1 and bnd.
#[inline(never)]
fn himeno_row(u: &Rows<'_>, coefficients: [&[f32]; 12], out: &mut [f32]) -> f64 {
    const LANES: usize = 8;
    let n = out.len();
    let [[mm, mo, mp], [om, oo, op], [pm, po, pp]] = u.0.map(|rows| rows.map(|row| &row[..n + 2]));
    let [a0, a1, a2, a3, b0, b1, b2, c0, c1, c2, w1, bn] = coefficients.map(|row| &row[..n]);
    let mut sums = [0.0f64; LANES];
    let mut squares = [0.0f32; 1024];
    let squares = &mut squares[..n];
    for k in 0..n {
        let s0 = a0[k] * po[k + 1]
            + a1[k] * op[k + 1]
            + a2[k] * oo[k + 2]
            + b0[k] * (pp[k + 1] - pm[k + 1] - mp[k + 1] + mm[k + 1])
            + b1[k] * (op[k + 2] - om[k + 2] - op[k] + om[k])
            + b2[k] * (po[k + 2] - mo[k + 2] - po[k] + mo[k])
            + c0[k] * mo[k + 1]
            + c1[k] * om[k + 1]
            + c2[k] * oo[k]
            + w1[k];
        let ss = (s0 * a3[k] - oo[k + 1]) * bn[k];
        out[k] = oo[k + 1] + 0.8 * ss;
        squares[k] = ss * ss;
    }
    let (whole, rest) = squares.as_chunks::<LANES>();
    for squares in whole {
        sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += f64::from(*square));
    }
    rest.iter().fold(sums.iter().sum(), |sum, square| sum + f64::from(*square))
}

/// Iterations before those that are measured: they touch all memory.
const REHEARSAL: u32 = 3;

/// Himeno's benchmark with each thread's part of dimension 0; nanoseconds of so many iterations, and the sum of the
/// squares of the last one.
pub(super) fn himeno(w: &mut Spmd<'_>, [mx, my, mz]: [usize; 3], loops: u32) -> Result<(f64, f64), Fault> {
    let mut team = Team::new(w);
    let (me, threads) = (w.me() as usize, w.size() as usize);
    let (first, rows) = (me * mx / threads, (me + 1) * mx / threads - me * mx / threads);
    // A plane of each neighbour; rows whose length is no power of two.
    let (row, plane) = (mz + 16, my * (mz + 16));
    let array = |value: f32| vec![value; (rows + 2) * plane];
    let values = [1.0, 1.0, 1.0, 1.0 / 6.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0];
    // Not all at the same place of a page.
    let arrays: Vec<Vec<f32>> =
        values.iter().enumerate().map(|(i, v)| [vec![0.0; 48 * i], array(*v)].concat()).collect();
    let coefficients = |x: usize| -> [&[f32]; 12] { std::array::from_fn(|i| &arrays[i][48 * i + x..]) };
    let (mut p, mut wrk2) = (array(0.0), array(0.0));
    for (i, plane) in p.chunks_mut(plane).enumerate() {
        let i = (first + i) as f32 - 1.0;
        plane.fill(i * i / ((mx - 1) * (mx - 1)) as f32);
    }
    let inner = 1 + usize::from(me == 0)..rows + 1 - usize::from(me + 1 == threads);
    let mut begin = Instant::now();
    let mut gosa = 0.0;
    for step in 0..REHEARSAL + loops {
        if step == REHEARSAL {
            begin = Instant::now();
        }
        let mut here = 0.0;
        for i in inner.clone() {
            for j in 1..my - 1 {
                let x = i * plane + j * row;
                let u = [i - 1, i, i + 1].map(|i| [j - 1, j, j + 1].map(|j| &p[i * plane + j * row..]));
                here += himeno_row(&Rows(u), coefficients(x + 1), &mut wrk2[x + 1..x + mz - 1]);
            }
        }
        for i in inner.clone() {
            for j in 1..my - 1 {
                let x = i * plane + j * row;
                p[x + 1..x + mz - 1].copy_from_slice(&wrk2[x + 1..x + mz - 1]);
            }
        }
        // Of two threads, each has one neighbour.
        let (mine, theirs) = if me == 0 { (rows, rows + 1) } else { (1, 0) };
        let (low, high) = p.split_at_mut(mine.max(theirs) * plane);
        match me {
            0 => team.swap(&PLANES, &low[mine * plane..][..plane], &mut high[..plane])?,
            _ => team.swap(&PLANES, &high[..plane], &mut low[..plane])?,
        }
        [gosa] = team.sum([here])?;
    }
    Ok((begin.elapsed().as_nanos() as f64, gosa))
}

/// NPB's CG with each thread's rows of the matrix, and all of the vector that it is multiplied with;
/// the nanoseconds, and the eigenvalue.
pub(super) fn cg(w: &mut Spmd<'_>, class: &Class) -> Result<(f64, f64), Fault> {
    let mut team = Team::new(w);
    let (n, half) = (class.na as usize, class.na as usize / 2);
    let rows = if w.me() == 0 { 0..half } else { half..n };
    let a = Matrix::make(w, class, rows.start as i64..rows.end as i64, 0..class.na)?;
    let dot = |x: &[f64], y: &[f64]| -> f64 {
        let (xs, ys) = (x.as_chunks::<8>(), y.as_chunks::<8>());
        let mut sums = [0.0; 8];
        for (x, y) in xs.0.iter().zip(ys.0) {
            sums.iter_mut().zip(x).zip(y).for_each(|((sum, x), y)| *sum += x * y);
        }
        xs.1.iter().zip(ys.1).fold(sums.iter().sum(), |sum, (x, y)| sum + x * y)
    };
    // All of a vector of which `mine` is this thread's part.
    let gather = |team: &mut Team, mine: &[f64], all: &mut [f64]| {
        let (low, high) = all.split_at_mut(half);
        let (own, other) = if rows.start == 0 { (low, high) } else { (high, low) };
        own.copy_from_slice(mine);
        team.swap(&PARTS, mine, other)
    };
    let len = rows.len();
    let (mut x, mut z, mut p, mut q, mut r) =
        (vec![1.0; len], vec![0.0; len], vec![0.0; len], vec![0.0; len], vec![0.0; len]);
    let (mut all, mut zeta, mut begin) = (vec![0.0; n], 0.0, Instant::now());
    for it in 0..=class.niter {
        if it == 1 {
            x.fill(1.0);
            team.flags.exchange()?;
            begin = Instant::now();
        }
        z.fill(0.0);
        r.copy_from_slice(&x);
        p.copy_from_slice(&x);
        let [mut rho] = team.sum([dot(&r, &r)])?;
        for _ in 0..25 {
            gather(&mut team, &p, &mut all)?;
            a.times(&all, &mut q);
            let [pq] = team.sum([dot(&p, &q)])?;
            let alpha = rho / pq;
            z.iter_mut().zip(&p).for_each(|(z, p)| *z += alpha * p);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
            let before = rho;
            [rho] = team.sum([dot(&r, &r)])?;
            let beta = rho / before;
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + beta * *p);
        }
        gather(&mut team, &z, &mut all)?;
        a.times(&all, &mut q);
        let residual: f64 = x.iter().zip(&q).map(|(x, q)| (x - q) * (x - q)).sum();
        let [xz, zz] = team.sum([dot(&x, &z), dot(&z, &z)])?;
        black_box(team.sum([residual])?);
        let scale = 1.0 / zz.sqrt();
        x.iter_mut().zip(&z).for_each(|(x, z)| *x = scale * z);
        zeta = class.shift + 1.0 / xz;
    }
    team.flags.exchange()?;
    Ok((begin.elapsed().as_nanos() as f64, zeta))
}
