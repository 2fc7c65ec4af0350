//! Programs of coarrays: each checks what it gets.

use crate::check;
use hamr_xacc::prelude::*;

const LEN: i64 = 12;

/// Transfers, syncs, posts, locks and atomics, in all of the executing set and in parts of it.
#[offload]
pub fn coarrays(w: &mut Spmd, rounds: u32) -> Result<(), Fault> {
    for _ in 0..rounds {
        w.scope(|w| {
            transfers(w)?;
            nonblocking(w)?;
            syncs(w)?;
            posts(w)?;
            locks(w)?;
            atomics(w)?;
            parts(w)
        })?;
    }
    // One that is not taken is none of the next program's.
    w.post(0, 3)
}

fn value(image: i64, at: i64) -> i64 {
    image * 1000 + at
}

/// A coarray with values of each image.
fn line<'c>(w: &mut Spmd<'c>) -> Result<Coarray<'c, i64, 1>, Fault> {
    let mut a = w.own([LEN]).coarray(w)?;
    let (me, mut view) = (w.me(), a.view_mut(w));
    (0..LEN).for_each(|i| view[[i]] = value(me, i));
    w.sync_all()?;
    Ok(a)
}

/// Each image to the next one, in a ring.
fn transfers(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let (next, last) = ((me + 1) % n, (me + n - 1) % n);
    let (mut a, mut b) = (line(w)?, w.own([4, 5, 6]).coarray::<i64>(w)?);
    // Every second one backwards, and a plane of the other.
    a.put(next, s![(0..6).step(2)], s![(6..12).step(-2)], w)?;
    b.put(next, s![.., 2, (..).step(3)], 7 + me, w)?;
    b.put(next, s![1, 0..3, 5], a.section(s![9..12]), w)?;
    b.put(next, s![1..3, 4, 0], a.at(me, s![(7..9).step(-1)]), w)?;
    w.sync_all()?;
    let view = a.view(w);
    let wanted = |i| if i < 6 && i % 2 == 0 { value(last, 11 - i) } else { value(me, i) };
    check((0..LEN).all(|i| view[[i]] == wanted(i)), "another element behind a put")?;
    let view = b.view(w);
    let wanted = |i, j, k| match (i, j, k) {
        (1, 0..=2, 5) => value(last, 9 + j),
        (1 | 2, 4, 0) => value(last, 9 - i),
        (_, 2, 0 | 3) => 7 + last,
        _ => 0,
    };
    let all = (0..4).flat_map(|i| (0..5).flat_map(move |j| (0..6).map(move |k| (i, j, k))));
    check(all.clone().all(|(i, j, k)| view[[i, j, k]] == wanted(i, j, k)), "another element of a block")?;
    w.sync_all()?;
    let mut got = [0; 3];
    a.get_into(next, s![(6..12).step(2)], &mut got, w)?;
    check(got == [6, 8, 10].map(|i| value(next, i)), "another slice")?;
    a.get(s![0..6], next, s![6..12], w)?;
    w.sync_all()?;
    // Overlapping: all of it is read first.
    a.put(me, s![1..12], s![0..11], w)?;
    let view = a.view(w);
    let wanted = |i: i64| if i < 7 { value(next, 6 + (i - 1).max(0)) } else { value(me, i - 1) };
    check((0..LEN).all(|i| view[[i]] == wanted(i)), "another element behind an overlap")?;
    // Between two others, and in another one.
    w.sync_all()?;
    if me == 0 {
        a.put(last, s![..], &[5; LEN as usize][..], w)?;
        a.copy((next, s![..]), (last, s![..]), w)?;
        a.copy((last, s![0..11]), (last, s![1..12]), w)?;
    }
    w.sync_all()?;
    let view = a.view(w);
    check((me != 1 % n && me != n - 1) || (0..LEN).all(|i| view[[i]] == 5), "another copy")
}

/// Transfers that a wait completes, beside other work.
fn nonblocking(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let (next, last) = ((me + 1) % n, (me + n - 1) % n);
    let (a, mut b, mut c) = (line(w)?, w.own([LEN]).coarray(w)?, w.own([2]).coarray(w)?);
    for wait in 0..4 {
        let mut slice = [0; 3];
        w.nonblock(|w| {
            b.put(me, s![0..6], a.at(next, s![6..12]), w)?;
            b.put(me, s![6..9], a.section(s![0..3]), w)?;
            c.put(next, s![0], value(me, wait), w)?;
            a.get_into(next, s![0..3], &mut slice, w)
        })?;
        // What is right here does not depend on the wait.
        check(slice == [0, 1, 2].map(|i| value(next, i)) && a.view(w)[[3]] == value(me, 3), "another slice")?;
        // The first is no right side of what waits for it.
        let early = w.nonblock(|w| c.put(next, s![1], b.section(s![0]), w));
        check(early.is_err_and(|fault| fault.text.contains("before wait_nonblock or a sync")), "it is not there")?;
        match wait {
            0 => w.wait_nonblock(),
            1 => w.sync_memory(),
            2 => w.sync_images_all()?,
            _ => w.sync_all()?,
        }
        let view = b.view(w);
        let wanted = |i| if i < 6 { value(next, i + 6) } else { value(me, i - 6) };
        check((0..9).all(|i| view[[i]] == wanted(i)), "another element behind a wait")?;
        b.view_mut(w).fill(-1);
        w.sync_all()?;
        check(c.view(w)[[0]] == value(last, wait), "another put of a nonblock")?;
        w.sync_all()?;
    }
    // Outside of it, a transfer is complete at once.
    b.get(s![0], next, s![1], w)?;
    check(b.view(w)[[0]] == -1, "another element")
}

/// Omni's `sync_images`: rounds of gets of all images from all, with syncs of pairs between.
fn syncs(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let mut a = w.own([1]).coarray(w)?;
    for round in 0..8 {
        a.view_mut(w)[[0]] = 39_361 + 2 * (me + 1) + round;
        w.sync_images_all()?;
        for image in 0..n {
            let mut got = [0];
            a.get_into(image, s![0], &mut got, w)?;
            check(got == [39_361 + 2 * (image + 1) + round], "another round")?;
        }
        // All with the first, and the first with all: lists of different lengths.
        if me == 0 {
            w.sync_images(1..n)?
        } else {
            w.sync_image(0)?
        }
        w.sync_images_all()?;
    }
    w.sync_images([None::<i64>; 2])?;
    w.sync_memory();
    // A chain: each image sees what those before it have done.
    a.view_mut(w).fill(0);
    w.sync_all()?;
    let on_line = |image: i64| Some(image).filter(|image| (0..n).contains(image));
    let (low, high) = (on_line(me - 1), on_line(me + 1));
    w.sync_images([low])?;
    if let Some(high) = high {
        let here = a.view(w)[[0]];
        a.put(high, s![0], here + 1, w)?;
    }
    w.sync_images([high])?;
    check(a.view(w)[[0]] == me, "another link of the chain")
}

/// Omni's `post_wait` and its massive relatives.
fn posts(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let next = (me + 1) % n;
    let last = (me + n - 1) % n;
    let mut a = w.own([4]).coarray(w)?;
    // Tags in another order than posted; to itself where there is one image.
    for tag in [3, 15, 0] {
        a.put(next, s![i64::from(tag) % 4], i64::from(tag) + me, w)?;
        w.post(next, tag)?;
    }
    check(w.wait(last, 15)? == (last, 15) && a.view(w)[[3]] == 15 + last, "tag 15")?;
    check(w.wait(None, 0)? == (last, 0) && a.view(w)[[0]] == last, "tag 0")?;
    check(w.wait(last, None)? == (last, 3), "tag 3")?;
    w.sync_all()?;
    // Posts of all to all, taken by waits of any.
    const POSTS: i64 = 100;
    for (post, to) in (0..POSTS).flat_map(|post| (0..n).map(move |to| (post, to))) {
        w.post(to, (post % 16) as u8)?;
    }
    let mut sums = [0; 2];
    for _ in 0..POSTS * n {
        let (from, tag) = w.wait(None, None)?;
        sums = [sums[0] + from, sums[1] + i64::from(tag)];
    }
    let tags = (0..POSTS).map(|post| post % 16).sum::<i64>();
    check(sums == [POSTS * n * (n - 1) / 2, n * tags], "other posts")?;
    w.sync_all()?;
    // Two senders, one tag: both count.
    if me < 2 {
        w.post(0, 7)?;
    }
    if me == 0 {
        let first = w.wait(None, 7)?;
        check(n == 1 || w.wait(None, 7)?.0 + first.0 == 1, "two posts of one tag")?;
    }
    w.sync_all()
}

/// Omni's `lock-unlock`: numbers that are read and written behind a lock, on each image.
fn locks(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let (locks, mut a) = (w.locks(2)?, w.own([2]).coarray(w)?);
    const ROUNDS: i64 = 5;
    for (image, nth) in (0..ROUNDS).flat_map(|_| (0..n).flat_map(|image| [(image, 0), (image, 1)])) {
        locks.locked(image, nth, w, |w| {
            let mut here = [0];
            a.get_into(image, s![nth], &mut here, w)?;
            a.put(image, s![nth], here[0] + 1, w)
        })?;
    }
    w.sync_all()?;
    check(a.view(w).local() == [ROUNDS * n; 2], "not alone behind a lock")?;
    locks.critical(w, |w| {
        let mine = locks.try_locked(0, 0, w, |_| Ok(()));
        check(mine.is_err_and(|fault| fault.text.contains("this image has lock 0 of image 0 already")), "mine")?;
        locks.try_locked(me, 1, w, |_| Ok(())).and_then(|got| check(got.is_some(), "it is free"))
    })?;
    w.sync_all()?;
    // Another one has it.
    if me == 0 {
        locks.locked(n - 1, 1, w, |w| {
            (1..n).try_for_each(|image| w.post(image, 1))?;
            (1..n).try_for_each(|image| w.wait(image, 2).map(drop))
        })?;
    } else {
        w.wait(0, 1)?;
        check(locks.try_locked(n - 1, 1, w, |_| Ok(()))?.is_none(), "another one has it")?;
        w.post(0, 2)?;
    }
    w.sync_all()
}

/// Omni's `atomic_define` and `atomic_ref`, and the other operations.
fn atomics(w: &mut Spmd) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let (mut a, mut b) = (w.own([2, 3]).coarray::<i64>(w)?, w.own([2]).coarray::<i64>(w)?);
    for image in 0..n {
        (0..10).try_for_each(|_| a.atomic(image, [1, 2], AtomicOp::Add(1), w).map(drop))?;
        b.atomic(image, [0], AtomicOp::Max(me - 5), w)?;
        b.atomic(image, [1], AtomicOp::Or(1 << me), w)?;
    }
    w.sync_all()?;
    check(a.atomic_ref(me, [1, 2], w)? == 10 * n && a.view(w)[[1, 2]] == 10 * n, "another sum")?;
    check(b.view(w).local() == [(n - 6).max(0), (1 << n) - 1], "other atomics")?;
    a.atomic_define((me + 1) % n, [0, 1], me + 1, w)?;
    w.sync_all()?;
    let last = (me + n - 1) % n;
    check(a.view(w)[[0, 1]] == last + 1 && a.view(w)[[0, 0]] == 0, "another value")?;
    let swap = AtomicOp::CompareSwap { expected: last + 1, new: 77 };
    check(a.atomic(me, [0, 1], swap, w)? == last + 1 && a.atomic_ref(me, [0, 1], w)? == 77, "compare and swap")
}

/// In a task images are numbered anew, and have coarrays of their own.
fn parts(w: &mut Spmd) -> Result<(), Fault> {
    let n = w.size();
    let mut whole = line(w)?;
    let odd: NodeSet = (0..n).filter(|rank| rank % 2 == 1).collect();
    w.sync_all()?;
    let part = w.task(odd, |w| {
        let (me, size) = (w.me(), w.size());
        let mut part = w.own([3]).coarray(w)?;
        part.put((me + 1) % size, s![1], me + 1, w)?;
        // Image 0 is rank 1 here.
        whole.put((me + 1) % size, s![0], -1 - me, w)?;
        w.sync_all()?;
        check(part.view(w)[[1]] == (me + size - 1) % size + 1, "another image in a task")?;
        check(whole.view(w)[[0]] == -1 - (me + size - 1) % size, "another image of a larger set")?;
        Ok::<_, Fault>(part)
    })?;
    let is_member = part.is_some();
    check(is_member == odd.contains(w.me()), "a part of a node that is no member")?;
    if let Some(mut part) = part.transpose()? {
        let refused = part.put(0, s![0], 1, w).map_err(|fault| fault.text.contains("image 0 has no part"));
        check(refused == Err(true), "an image without a part")?;
        part.put(1, s![0], 3, w)?;
    }
    w.sync_all()
}

/// Uses that are refused, on two images or more.
#[offload]
pub fn misused(w: &mut Spmd, how: u32) -> Result<(), Fault> {
    let (me, n) = (w.me(), w.size());
    let mut a = w.own([10, 5]).coarray::<u32>(w)?;
    let is_first = me == 0;
    match how {
        0 => a.put(n, s![0, 0], 1, w),
        1 => a.put(1, s![.., 3..6], 1, w),
        2 => a.get(s![0..3, 0], 1, s![0..4, 0], w),
        3 => a.put(1, s![0..4, 1..3], &[1; 7][..], w),
        4 => {
            a.view_mut(w)[[10, 0]] = 1;
            Ok(())
        }
        5 => a.atomic_define(1, [0, 5], 1, w),
        6 => w.locks(1)?.locked(0, 1, w, |_| Ok(())),
        7 => w.post(0, 16),
        8 => w.wait(n, 1).map(drop),
        9 => w.sync_images([1 - me.min(1), 1 - me.min(1)]),
        10 if is_first => w.sync_all(),
        10 => w.barrier(),
        11 if is_first => w.sync_image(1),
        11 => w.sync_all(),
        12 if is_first => w.own([4, 4]).coarray::<u32>(w).map(drop),
        12 => w.own([8, 2]).coarray::<u32>(w).map(drop),
        13 if is_first => w.own([8]).coarray::<f64>(w).map(drop),
        13 => w.own([8]).zeros::<f64>(w).and_then(|_| w.barrier()),
        14 => w.nodes([n])?.template([20]).distribute([Block])?.coarray::<u32>(w).map(drop),
        16.. => {
            let mut b = w.own([10, 5]).coarray::<u32>(w)?;
            w.nonblock(|w| a.get(s![0, ..], 1 - me, s![1, ..], w))?;
            match how {
                16 => drop(a.view(w)),
                17 => a.view_mut(w).fill(0),
                18 => b.put(1, s![0, ..], a.section(s![0, ..]), w)?,
                19 => a.put(1, s![0, ..], s![1, ..], w)?,
                20 => a.get(s![2, ..], 1 - me, s![1, ..], w)?,
                21 => a.atomic(me, [2, 0], AtomicOp::Add(1), w).map(drop)?,
                22 => a.keep(w).map(drop)?,
                23 => w.post(1, 1)?,
                24 => w.barrier()?,
                25 => w.locks(1)?.locked(1, 0, w, |_| Ok(()))?,
                26 => w.scope(|_| Ok(()))?,
                _ => {}
            }
            Ok(())
        }
        _ => {
            let b = w.nodes([n])?.template([20]).distribute([Block])?.zeros::<u32>(w)?;
            a.put(1, s![.., 0], b.section(s![3..13]), w)
        }
    }
}

/// What faults of [`misused()`] say.
pub const REASONS: [&str; 28] = [
    "no image 2, there are 2",
    "image 1, dimension 1: index 5 outside of 0..5",
    "dimension 0: expected 3 elements, got 4",
    "a section of 8 elements, a slice of 7",
    "dimension 0: index 10, here are 0..10",
    "image 1, dimension 1: index 5, here are 0..5",
    "image 0, dimension 0: index 1, here are 0..1",
    "no tag 16, tags are 0 to 15",
    "no image 2, there are 2",
    "is named twice",
    "node 0 is in sync_all (coarrays.rs:",
    "node 0 is in sync_images (coarrays.rs:",
    "node 0 is in array of 16 u32",
    "node 0 is in the allocation of a coarray of f64",
    "a coarray's shape is that of `w.own` of the executing set",
    "elements of the section are not on this image",
    INCOMPLETE,
    INCOMPLETE,
    INCOMPLETE,
    INCOMPLETE,
    INCOMPLETE,
    INCOMPLETE,
    INCOMPLETE,
    NOT_FINISHED,
    NOT_FINISHED,
    NOT_FINISHED,
    NOT_FINISHED,
    NOT_FINISHED,
];

const INCOMPLETE: &str = "the coarray is not there before wait_nonblock or a sync";
const NOT_FINISHED: &str = "not finished: nonblock (coarrays.rs:";
