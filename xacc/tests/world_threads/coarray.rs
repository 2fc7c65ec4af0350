//! Transfers between images, against the same assignments of vectors.

use super::gmove::{AT_ONCE, cases_on};
use super::model::{Numbers, elements, indices, numbers, pair};
use super::{run, run_once, world};
use hamr_comm::Fault;
use hamr_xacc::dist::Dist::Block;
use hamr_xacc::section::{Region, Sel, triplet};
use hamr_xacc::{Coarray, Spmd, s};
use proptest::prelude::*;
use std::ops::Range;

const IMAGES: u32 = 3;
/// Transfers of a case, and runs of cases: of lines and of blocks 50,000 transfers each.
const EACH: usize = 500;
const RUNS: u32 = 50_000 / (EACH * AT_ONCE) as u32;

/// The elements of all images, row-major.
struct Model<const N: usize> {
    ranges: [Range<i64>; N],
    images: Vec<Vec<u64>>,
}

impl<const N: usize> Model<N> {
    fn new(ranges: &[Range<i64>; N], from: u64) -> Self {
        let len: usize = ranges.iter().map(|range| range.clone().count()).product();
        let images = (0..u64::from(IMAGES)).map(|image| (0..len as u64).map(|i| from + image * 1000 + i).collect());
        Self { ranges: ranges.clone(), images: images.collect() }
    }

    fn place(&self, index: [i64; N]) -> usize {
        let dims = index.iter().zip(&self.ranges);
        dims.fold(0, |at, (index, range)| {
            assert!(range.contains(index));
            at * (range.end - range.start) as usize + (index - range.start) as usize
        })
    }

    /// The elements of a section.
    fn read(&self, image: i64, of: &Region<N>) -> Vec<u64> {
        elements(of).into_iter().map(|index| self.images[image as usize][self.place(index)]).collect()
    }

    fn write(&mut self, image: i64, to: &Region<N>, values: &[u64]) {
        for (nth, index) in elements(to).into_iter().enumerate() {
            let at = self.place(index);
            self.images[image as usize][at] = values[if values.len() == 1 { 0 } else { nth }];
        }
    }

    /// The coarray with these elements.
    fn make<'c>(&self, w: &mut Spmd<'c>) -> Result<Coarray<'c, u64, N>, Fault> {
        let mut made = w.own(self.ranges.clone()).coarray(w)?;
        let mut view = made.view_mut(w);
        for index in indices(self.ranges.clone()) {
            view[index] = self.images[view.desc().me() as usize][self.place(index)];
        }
        w.sync_all()?;
        Ok(made)
    }

    /// Compares this image's elements with those of a coarray.
    fn compare(&self, with: &Coarray<'_, u64, N>, w: &Spmd<'_>) -> Result<(), Fault> {
        let view = with.view(w);
        for index in indices(self.ranges.clone()) {
            let expected = self.images[w.me() as usize][self.place(index)];
            if view[index] != expected {
                return Err(Fault::msg(&format!("{index:?} of {} is {}, not {expected}", w.me(), view[index])));
            }
        }
        Ok(())
    }
}

/// What a transfer does, and the images of the left and of the right side.
type Who = [i64; 3];

/// Transfers by one image, one after the other: it sees what each has done, the others what all have.
fn check<const N: usize>(
    w: &mut Spmd<'_>,
    ranges: &[Range<i64>; N],
    (doer, transfers): &(i64, Vec<([Numbers; N], Who)>),
) -> Result<(), Fault> {
    let (mut of_a, of_b) = (Model::new(ranges, 1), Model::new(ranges, 100_000));
    let (mut a, b) = (of_a.make(w)?, of_b.make(w)?);
    for (n, who) in transfers {
        let pairs: [_; N] = std::array::from_fn(|dim| pair(ranges[dim].clone(), ranges[dim].clone(), n[dim]));
        let sections = (pairs.map(|pair| pair.0), pairs.map(|pair| pair.1));
        let doer_and_who = (*doer, *who);
        if n[0].0 % 2 == 0 {
            transfer(w, (&mut a, &mut of_a), (&b, &of_b), sections, doer_and_who)?;
        } else {
            w.nonblock(|w| transfer(w, (&mut a, &mut of_a), (&b, &of_b), sections, doer_and_who))?;
            w.wait_nonblock();
        }
        // Elsewhere nothing has changed: all images look at the end.
        let [kind, to, _] = *who;
        let written = if kind == 1 { *doer } else { to };
        if w.me() == *doer {
            let mut got = vec![0; of_a.images[0].len()];
            a.get_into(written, [Sel::All; N], &mut got, w)?;
            if got != of_a.images[written as usize] {
                return Err(Fault::msg(&format!("image {written} behind {who:?}")));
            }
        }
    }
    w.sync_all()?;
    of_a.compare(&a, w)?;
    of_b.compare(&b, w)
}

fn transfer<const N: usize>(
    w: &mut Spmd<'_>,
    (a, of_a): (&mut Coarray<'_, u64, N>, &mut Model<N>),
    (b, of_b): (&Coarray<'_, u64, N>, &Model<N>),
    (x, y): ([Sel; N], [Sel; N]),
    (doer, [kind, to, from]): (i64, Who),
) -> Result<(), Fault> {
    let ranges = &of_a.ranges;
    let (to_region, from_region) = (Region::new(x, ranges.clone())?, Region::new(y, ranges.clone())?);
    let values = match kind {
        0 => of_a.read(doer, &from_region),
        1 | 2 => of_a.read(from, &from_region),
        3 => (7..7 + to_region.len() as u64).collect(),
        4 => vec![9],
        5 => of_b.read(doer, &from_region),
        _ => of_b.read(from, &from_region),
    };
    if w.me() == doer {
        match kind {
            0 => a.put(to, x, y, w)?,
            1 => a.get(x, from, y, w)?,
            2 => a.copy((to, x), (from, y), w)?,
            3 => a.put(to, x, &values[..], w)?,
            4 => a.put(to, x, 9, w)?,
            5 => a.put(to, x, b.section(y), w)?,
            6 => a.put(to, x, b.at(from, y), w)?,
            _ => {
                let mut slice = vec![0; values.len()];
                b.get_into(from, y, &mut slice, w)?;
                if slice != values {
                    return Err(Fault::msg("another slice"));
                }
                a.put(to, x, b.at(from, y), w)?;
            }
        }
    }
    of_a.write(if kind == 1 { doer } else { to }, &to_region, &values);
    Ok(())
}

fn ranges() -> impl Strategy<Value = Range<i64>> {
    (-3i64..4, 1i64..9).prop_map(|(lo, len)| lo..lo + len)
}

fn transfers<const N: usize>() -> impl Strategy<Value = (i64, Vec<([Numbers; N], Who)>)> {
    let images = || 0..i64::from(IMAGES);
    let who = [0..8, images(), images()];
    (images(), proptest::collection::vec((proptest::array::uniform(numbers()), who), EACH))
}

/// Omni's `coarray_get_1dim`, `coarray_put_1dim` and their `vector`, `local_put`, `local_get` and `scalar_mput`,
/// `scalar_mget`: from and to coarrays, slices and one value.
#[test]
fn sections_of_lines_are_transferred() {
    cases_on(IMAGES, RUNS, (ranges(), transfers()), |w, (a, transfers)| check(w, std::array::from_ref(a), transfers));
}

/// The same with `3dims`.
#[test]
fn sections_of_blocks_are_transferred() {
    let ranges = [ranges(), ranges(), ranges()];
    cases_on(IMAGES, RUNS, (ranges, transfers()), |w, (a, transfers)| check(w, a, transfers));
}

/// The same with `2dims` and `4dims`.
#[test]
fn sections_of_planes_and_of_four_dimensions_are_transferred() {
    let planes = [ranges(), ranges()];
    cases_on(IMAGES, 1, (planes, transfers()), |w, (a, transfers)| check(w, a, transfers));
    let short = || (-3i64..4, 1i64..4).prop_map(|(lo, len)| lo..lo + len);
    let ranges = [short(), short(), short(), short()];
    cases_on(IMAGES, 1, (ranges, transfers()), |w, (a, transfers)| check(w, a, transfers));
}

/// Omni's `coarray_put_1dim`, `coarray_get_1dim` and their `stride` and `local_overlap`: every start,
/// length and stride, to another image and to the same.
#[test]
fn coarray_put_and_get_1dim() {
    const LEN: i64 = 6;
    let all = || {
        let sections = (0..LEN).flat_map(|first| (1..=LEN).map(move |len| (first, len)));
        let sections = sections.flat_map(|(first, len)| (-3..=3).map(move |step| (first, len, step)));
        sections.filter(|(first, len, step)| *step != 0 && (0..LEN).contains(&(first + (len - 1) * step)))
    };
    for image in [0, 1] {
        let done = run(&world(2), move |w| {
            let mut a = w.own([LEN]).coarray::<u64>(w)?;
            let mut n = 0;
            for (x, y) in all().flat_map(|x| all().map(move |y| (x, y))).filter(|(x, y)| x.1 == y.1) {
                n += 1;
                let mut expected: Vec<_> = (0..LEN as u64).collect();
                if w.me() == 0 {
                    a.view_mut(w).local_mut().copy_from_slice(&expected);
                    a.put(1, [Sel::All], [Sel::All], w)?;
                    let (to, from) = ([triplet(x.0, x.1, x.2)], [triplet(y.0, y.1, y.2)]);
                    if n % 2 == 0 {
                        a.put(image, to, from, w)?
                    } else {
                        a.copy((image, to), (1, from), w)?
                    };
                    let at = |s: (i64, i64, i64), i: i64| (s.0 + i * s.2) as usize;
                    (0..x.1).for_each(|i| expected[at(x, i)] = at(y, i) as u64);
                    let mut got = [0; LEN as usize];
                    a.get_into(image, [Sel::All], &mut got, w)?;
                    if got[..] != expected {
                        return Err(Fault::msg(&format!("{x:?} = {y:?}: {got:?}")));
                    }
                }
            }
            w.sync_all()
        });
        assert_eq!(done, Ok(()), "image {image}");
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_at_once() {
    let (to, from) = std::sync::mpsc::channel();
    // A thread that goes on is left behind.
    std::thread::spawn(move || {
        for rows in [1 << 36, i64::from(u32::MAX)] {
            let refused = run_once(&world(2), move |w| match rows {
                rows if rows > i64::from(u32::MAX) => w.own([rows, 1]).coarray::<u8>(w).map(drop),
                rows => w.locks(rows).map(drop),
            });
            drop(to.send(refused));
        }
    });
    for what in ["64 GiB", "48 GiB of locks"] {
        let refused = from.recv_timeout(std::time::Duration::from_secs(5)).expect("an answer within five seconds");
        let why = refused.expect_err(what);
        assert!(why.contains("no room"), "{what}: {why}");
    }
}

/// What is behind such arrays is at the same place on all nodes, however far each node's reach.
#[test]
fn arrays_of_each_node_have_lengths_of_their_own() {
    for ranks in [1, 2, 6] {
        for is_longest_first in [false, true] {
            let done = run(&world(ranks), move |w| {
                let (me, n) = (w.me(), w.size());
                let by = if is_longest_first { n - 1 - me } else { me };
                let line = w.nodes([n])?.template([60]).distribute([Block])?.shadow([1]);
                for round in 0..3 {
                    // From no element to some pages, and other indices.
                    let extent = by..by + 1500 * by;
                    let mine = w.own([extent]);
                    let [a, b] = mine.fulls([me, 100 + round], w)?;
                    let (mut c, mut d) = (w.own([4]).coarray(w)?, line.full(me, w)?);
                    c.put((me + 1) % n, s![..], 10 * round + me, w)?;
                    d.reflect(w)?;
                    w.sync_all()?;
                    let from = (me + n - 1) % n;
                    let own = d.range()?;
                    let is_right = c.view(w).local() == [10 * round + from; 4]
                        && (own.start == 0 || d[[own.start - 1]] == me - 1)
                        && a.local().iter().all(|x| *x == me)
                        && b.local().iter().all(|x| *x == 100 + round)
                        && a.local().len() as i64 == 1500 * by;
                    if !is_right {
                        return Err(Fault::msg("an array is where another one is"));
                    }
                }
                Ok(())
            });
            assert_eq!(done, Ok(()), "{ranks} nodes");
        }
    }
}
