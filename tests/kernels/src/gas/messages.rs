//! Messages: that they arrive, what refuses them, and how ranks end by them.

use super::*;
use core::time::Duration;
use hamr_comm::offload;
use hamr_gas::BarrierName;

/// Requests of every kind with every number of arguments to every rank, this one among them, and their
/// replies.
#[offload]
pub fn arities(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size, most) = (rank.me(), rank.size(), rank.max_medium());
    let mut asked = 0;
    for to in (0..size).map(RankId) {
        for nargs in 0..=16 {
            for len in [0, 1, 7, 40 - nargs.min(9) * 4, 41, 64, 500, 1024] {
                let args: [i32; 16] = core::array::from_fn(|i| argument(asked, i));
                let (args, _) = args.split_at(nargs);
                let mut data = [0; 1024];
                let (data, _) = data.split_at_mut(len.min(most));
                data.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(asked, i));
                *rank.state_mut() = State { seed: asked, nargs, len, replies: 0, ..*rank.state() };
                rank.request_short(to, ECHO_SHORT, args)?;
                rank.request_medium(to, ECHO_MEDIUM, args, data)?;
                rank.request_long(to, ECHO_LONG, args, data, u64::from(me.0) * PLACE)?;
                rank.block_until(|state| state.replies == 3)?;
                if rank.state().wrong != 0 {
                    use core::fmt::Write;
                    let mut text = heapless::String::<80>::new();
                    let _ = write!(text, "an echo of rank {to} differs: {nargs} arguments, {len} bytes");
                    return Err(Fault::msg(&text));
                }
                asked += 1;
            }
        }
    }
    finish(rank)?;
    Ok(asked)
}

/// `depth` medium messages in flight, of lengths up to the longest, with their checksums.
#[offload]
pub fn checksums(rank: &mut Rank<State>, rounds: u32, depth: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let most = rank.max_medium();
    let mut sent = 0;
    // No larger than an image has room for.
    let mut data = [0; 4032];
    for round in 0..rounds {
        let to = RankId((rank.me().0 + round) % rank.size());
        for i in 0..depth {
            let len = ((round + i) as usize * 97) % (data.len().min(most) + 1);
            let (data, _) = data.split_at_mut(len);
            data.iter_mut().enumerate().for_each(|(k, byte)| *byte = pattern(sent, k));
            let wanted = sum(data) as i32;
            rank.request_medium(to, SUM, &[wanted], data)?;
            sent += 1;
        }
        rank.block_until(|state| state.replies == sent)?;
    }
    expect(rank.state().wrong == 0, "a checksum differs")?;
    finish(rank)?;
    Ok(sent)
}

/// Messages of all kinds with checksums, from each rank to one after the other, `each` of them; ranks sleep now and then.
/// Returns how many were answered, and how many of those were wrong.
#[offload]
pub fn mixed(rank: &mut Rank<State>, each: u32, sleeps: bool) -> Result<(u32, u32), Fault> {
    rank.attach(&TABLE)?;
    let (me, size, most) = (rank.me().0, rank.size(), rank.max_medium());
    let mut data = [0; 2048];
    for i in 0..each {
        // A partner for 64 messages.
        let to = RankId((me + i / 64) % size);
        // Lengths in a line, in a chunk, and beyond one line.
        let len = [0, 8, 30, 64, 300, 2048][(i.wrapping_mul(7) >> 2) as usize % 6].min(most);
        let (data, _) = data.split_at_mut(len);
        data.iter_mut().enumerate().for_each(|(k, byte)| *byte = pattern(me ^ i, k));
        let wanted = sum(data) as i32;
        match i % 3 {
            0 => rank.request_medium(to, SUM, &[wanted], data)?,
            1 => rank.request_medium(to, SUM, &[wanted; 13], data)?,
            _ => {
                let own = (i & 15) as usize * 2048;
                rank.request_long(to, SUM_LONG, &[wanted], data, u64::from(me) * 16 * 2048 + own as u64)?;
            }
        }
        // A long payload lies where it is until its answer.
        if i % 48 == 47 {
            rank.block_until(|state| state.replies == i + 1)?;
        }
        if sleeps && i % 100_000 == 99_999 {
            rank.task().sleep(Duration::from_millis(2))?;
        }
    }
    rank.block_until(|state| state.replies == each)?;
    finish(rank)?;
    Ok((rank.state().replies, rank.state().wrong))
}

/// All ranks send messages without replies to all at the same time, of all kinds; none is lost or comes
/// twice.
#[offload]
pub fn flood(rank: &mut Rank<State>, each: u32) -> Result<u64, Fault> {
    rank.attach(&TABLE)?;
    let size = rank.size();
    for i in 1..=each {
        for to in (0..size).map(RankId) {
            match i % 8 {
                0 => rank.request_medium(to, NOTE, &[i as i32], &[1; 100])?,
                1 => rank.request_long(to, NOTE, &[i as i32], &[1; 8], u64::from(rank.me().0) * PLACE)?,
                2 => rank.request_short(to, NOTE, &[i as i32; 14])?,
                _ => rank.request_short(to, NOTE, &[i as i32])?,
            }
        }
    }
    rank.block_until(|state| state.noted == size * each)?;
    finish(rank)?;
    expect(rank.state().noted == size * each, "a message came twice")?;
    Ok(rank.state().sum)
}

/// Each refused message has its error, and the next one works.
#[offload]
pub fn limits(rank: &mut Rank<State>) -> Result<u32, Fault> {
    let to = RankId(rank.size() - 1);
    expect(rank.request_short(to, NOTE, &[]) == Err(GasError::NotAttached), "not attached")?;
    rank.attach(&TABLE)?;
    expect(rank.attach(&TABLE) == Err(GasError::AlreadyAttached), "attached twice")?;
    let (size, most) = (rank.size(), rank.max_medium());
    expect(most >= 512 && most + 64 <= 16 << 10, "the longest medium payload")?;
    static LONG: [u8; 16 << 10] = [0; 16 << 10];
    let checks = [
        rank.request_short(RankId(size), NOTE, &[]) == Err(GasError::NoRank(size)),
        rank.request_short(to, NOTE, &[0; 17]) == Err(GasError::Arguments(17)),
        rank.request_medium(to, NOTE, &[], LONG.get(..most + 1).unwrap_or_default())
            == Err(GasError::TooLong { len: most + 1, max: most }),
        rank.request_short(to, 99, &[]) == Err(GasError::NoHandler { rank: to.0, at: 99 }),
        rank.request_short(to, ECHOED_SHORT, &[])
            == Err(GasError::WrongSide { rank: to.0, at: ECHOED_SHORT, name: "echoed_short" }),
        matches!(rank.request_medium(to, ECHO_SHORT, &[], &[]),
            Err(GasError::WrongKind { rank, at: ECHO_SHORT, name: "echo_short", .. }) if rank == to.0),
        matches!(rank.request_long(to, NOTE, &[], &[1, 2], rank.segment_len(to)? - 1),
            Err(GasError::Reach { rank, .. }) if rank == to.0),
        rank.segment_len(RankId(size)) == Err(GasError::NoRank(size)),
        // The longest ones.
        rank.request_medium(to, NOTE, &[0; 16], LONG.get(..most).unwrap_or_default()).is_ok(),
        rank.request_long(to, NOTE, &[], &[], u64::MAX).is_ok(),
    ];
    for (i, ok) in checks.iter().enumerate() {
        expect(
            *ok,
            ["rank", "arguments", "medium", "index", "side", "kind", "segment", "no segment", "longest", "end"]
                .get(i)
                .copied()
                .unwrap_or_default(),
        )?;
    }
    finish(rank)?;
    Ok(checks.len() as u32)
}

/// Prepared requests to every rank, more than a lane has room for, some of them cancelled; and what is refused.
#[offload]
pub fn prepared(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size, most) = (rank.me().0, rank.size(), rank.max_medium());
    let dest = u64::from(me) * 2048;
    let mut sent = 0;
    let mut bytes = [0; 2200];
    for (to, round) in (0..size).map(RankId).flat_map(|to| (0..60).map(move |round| (to, round))) {
        let is_long = round % 2 == 1;
        let mut message = match is_long {
            true => rank.prepare_long(to, 1, 2048, dest)?,
            false => rank.prepare_medium(to, 1, usize::MAX)?,
        };
        expect(message.size() == if is_long { 2048 } else { most }, "as long as it can be")?;
        let used = if is_long { 500 } else { (round as usize * 37).min(most) };
        let (used, _) = bytes.split_at_mut(used);
        // The long ones of a rank are at one place.
        let seed = if is_long { me } else { round };
        used.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(seed, i));
        let (front, behind) = used.split_at(used.len() / 3);
        message.write(front.len(), behind)?;
        message.write(0, front)?;
        if round % 10 == 4 {
            continue;
        }
        message.commit(if is_long { SUM_LONG } else { SUM }, &[sum(used) as i32], used.len())?;
        sent += 1;
    }
    rank.block_until(|state| state.replies == sent)?;
    expect(rank.state().wrong == 0, "every sum")?;
    let to = RankId(size - 1);
    let long = rank.prepare_medium(to, most + 1, most + 9).err();
    expect(long == Some(GasError::TooLong { len: most + 1, max: most }), "more than a message has")?;
    expect(rank.prepare_medium(to, 9, 8).is_err(), "nothing between")?;
    expect(rank.prepare_medium(RankId(size), 0, 1).err() == Some(GasError::NoRank(size)), "no rank")?;
    let end = rank.segment_len(to)?;
    expect(matches!(rank.prepare_long(to, 2, 9, end - 1).err(), Some(GasError::Reach { .. })), "outside")?;
    expect(rank.prepare_long(to, 0, usize::MAX, 0)?.size() as u64 == rank.max_long(to)?, "all of the segment")?;
    let mut message = rank.prepare_long(to, 1, 9, end - 5)?;
    expect(message.size() == 5 && message.write(4, &[1; 2]) == Err(GasError::TooLong { len: 6, max: 5 }), "its end")?;
    drop(message);
    let message = rank.prepare_medium(to, 0, 8)?;
    expect(message.commit(SUM, &[], 9) == Err(GasError::TooLong { len: 9, max: 8 }), "more than prepared")?;
    let message = rank.prepare_medium(to, 0, 8)?;
    expect(message.commit(99, &[], 0) == Err(GasError::NoHandler { rank: to.0, at: 99 }), "no handler")?;
    finish(rank)?;
    Ok(sent)
}

/// Calls that do not wait fill the lane of a rank that does not poll, and are refused then.
#[offload]
pub fn busy(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    if me == 0 && size > 1 {
        let mut sent = 0;
        while rank.try_request_short(RankId(1), NOTE, &[1]).is_ok() {
            sent += 1;
            expect(sent <= 100, "a lane without an end")?;
        }
        expect(rank.try_request_medium(RankId(1), NOTE, &[1], &[]) == Err(GasError::Busy), "no room")?;
        expect(sent > 2, "room for some")?;
        rank.task().barrier()?;
        // The other one polls now.
        rank.request_long(RankId(1), NOTE, &[sent], &[], 0)?;
    } else {
        rank.task().barrier()?;
    }
    if me == 1 {
        rank.block_until(|state| state.noted > 2 && state.sum + 2 >= 2 * u64::from(state.noted))?;
    }
    finish(rank)?;
    Ok(rank.state().noted)
}

/// All ranks but the first ask that one, more than it takes: it looks at messages only now and then. Returns the requests
/// that a lane has room for, which are as many behind it as before: no slot is lost.
#[offload]
pub fn incast(rank: &mut Rank<State>, each: u32, stall_us: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (first, others) = (RankId(0), rank.size() - 1);
    let before = room(rank)?;
    if rank.me() == first {
        while rank.state().ended < others {
            rank.task().sleep(Duration::from_micros(stall_us.into()))?;
            // As much as has come, and then it is away again.
            while rank.poll()? != 0 {}
        }
    } else {
        for _ in 0..each {
            rank.request_short(first, ECHO_SHORT, &[])?;
        }
        rank.block_until(|state| state.replies == each)?;
        rank.request_short(first, END, &[])?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    expect(room(rank)? == before, "a slot is lost")?;
    expect(rank.state().wrong == 0, "a reply is another one's")?;
    Ok(before)
}

/// The requests that a rank which does not poll has room for.
fn room(rank: &mut Rank<State>) -> Result<u32, Fault> {
    let mut sent = 0;
    // Replies of before a barrier are there behind it.
    while rank.poll()? != 0 {}
    rank.task().barrier()?;
    if rank.me().0 != 0 {
        while rank.try_request_short(RankId(0), ECHO_SHORT, &[]).is_ok() {
            sent += 1;
            expect(sent <= 100, "a lane without an end")?;
        }
    }
    rank.task().barrier()?;
    if rank.me().0 != 0 {
        let wanted = rank.state().replies + sent;
        rank.block_until(|state| state.replies == wanted)?;
        rank.state_mut().replies -= sent;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(sent)
}

#[rustfmt::skip]
static OTHER: Handlers<State> = Handlers::new()
    .request(10, Kinds::SHORT, "echo_short", |_, _, _| {})
    .request(11, Kinds::MEDIUM, "another", |_, _, _| {});
static SHORTER: Handlers<State> = Handlers::new().request(10, Kinds::SHORT, "echo_short", |_, _, _| {});

/// The rank of this number has another table than the others. Returns the error of `attach`.
#[offload]
pub fn unequal(rank: &mut Rank<State>, who: u32) -> Result<heapless::String<120>, Fault> {
    use core::fmt::Write;
    let table = if rank.me().0 == who { &SHORTER } else { &OTHER };
    let mut text = heapless::String::new();
    if let Err(why) = rank.attach(table) {
        let _ = write!(text, "{why}");
    }
    Ok(text)
}

#[rustfmt::skip]
static MORE: Handlers<State> = Handlers::new()
    .request(10, Kinds::SHORT, "echo_short", |_, _, _| {})
    .request(11, Kinds::MEDIUM, "another", |_, _, _| {})
    .request(END, Kinds::SHORT, "end", |state, _, _| state.ended += 1);
#[rustfmt::skip]
static LESS: Handlers<State> = Handlers::new()
    .request(10, Kinds::SHORT.or(Kinds::LONG), "echo_short", |_, _, _| {})
    .request(END, Kinds::SHORT, "end", |state, _, _| state.ended += 1);

/// Handlers are added behind the attach; tables that lose some, or are not equal, are named, and change nothing.
#[offload]
pub fn registers(rank: &mut Rank<State>) -> Result<u32, Fault> {
    expect(rank.register(&MORE) == Err(GasError::NotAttached), "not attached")?;
    rank.attach(&SHORTER)?;
    let (me, size) = (rank.me().0, rank.size());
    let to = RankId((me + 1) % size);
    expect(rank.request_short(to, END, &[]) == Err(GasError::NoHandler { rank: to.0, at: END }), "too early")?;
    expect(matches!(rank.register(&LESS), Err(GasError::Names { at: 10, .. })), "other kinds of messages")?;
    let different = rank.register(if me == 0 { &OTHER } else { &MORE });
    let is_named = matches!(different, Err(GasError::Names { at, one: (0, _), other: (1, _) }) if at == END);
    expect(if size == 1 { different.is_ok() } else { is_named }, "tables that differ")?;
    if size > 1 {
        expect(rank.request_short(to, END, &[]).is_err(), "it was not added")?;
    }
    rank.register(&MORE)?;
    rank.request_short(to, END, &[])?;
    rank.block_until(|state| state.ended == 1)?;
    expect(matches!(rank.register(&SHORTER), Err(GasError::Names { .. })), "fewer than there are")?;
    rank.barrier(BarrierName::Anonymous)?;
    Ok(rank.state().ended)
}

/// Rank 0 asks rank 1 for a reply that it cannot send.
#[offload]
pub fn bad_reply(rank: &mut Rank<State>, which: i32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 == 0 {
        rank.request_short(RankId(1 % rank.size()), BAD_REPLY, &[which])?;
    }
    rank.block_until(|state| state.replies != 0)?;
    Ok(0)
}

/// The last rank has rank 0 panic, or exit with a code, while all ranks wait for messages.
#[offload]
pub fn ends(rank: &mut Rank<State>, code: Option<u8>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 + 1 == rank.size() {
        match code {
            None => rank.request_short(RankId(0), PANICS, &[])?,
            Some(code) => rank.request_short(RankId(0), EXITS, &[i32::from(code)])?,
        }
    }
    rank.block_until(|_| false)?;
    Ok(0)
}
