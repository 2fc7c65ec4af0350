//! Puts, gets, values and fills.

use super::{State, TABLE, expect, pattern};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, offload};
use hamr_gas::{BarrierName, Event, GasError, Leaf, Rank, SegRange, Which};

/// Bytes that one rank has at another for transfers.
const SHARE: u64 = 32 << 10;

/// Puts, gets, values and fills of all kinds to every rank and back; by copies, or over messages.
#[offload]
pub fn transfers(rank: &mut Rank<State>, over_messages: bool) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    rank.use_messages(over_messages);
    let (me, size) = (rank.me(), rank.size());
    let mut done = 0;
    // Its own share: each rank writes in those of all.
    let (at, back) = (u64::from(me.0) * SHARE, u64::from(size) * SHARE);
    for to in (0..size).map(RankId) {
        for len in [0, 1, 2, 4, 8, 9, 31, 32, 33, 48, 49, 100, 1000, 4096] {
            let mut data = [0; 4096];
            let (data, _) = data.split_at_mut(len);
            let mut read = [0; 4096];
            let (read, _) = read.split_at_mut(len);
            // Aligned and not.
            for shift in [0, 1, 8] {
                done += 1;
                data.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(done, i));
                rank.put(to, at + shift, data)?;
                rank.get(to, at + shift, read)?;
                expect(read == data, "a get behind a put")?;
                let event = rank.put_nb(to, at + 8192 + shift, data)?;
                rank.wait(event)?;
                // Into the own segment, and from there to where it came from.
                let own = SegRange { off: back + shift, len: len as u64 };
                let event = rank.get_nb_into(to, at + 8192 + shift, own)?;
                rank.wait(event)?;
                rank.get(me, own.off, read)?;
                expect(read == data, "a get into the segment")?;
                let mut event = rank.put_nb_from(to, at + 16384 + shift, own)?;
                while !rank.test(&mut event) {
                    rank.poll()?;
                }
                read.fill(0);
                rank.get(to, at + 16384 + shift, read)?;
                expect(read == data, "a put from the segment")?;
            }
            rank.fill(to, at, done as u8, len as u64)?;
            rank.get(to, at, read)?;
            expect(read.iter().all(|byte| *byte == done as u8), "a fill")?;
        }
        values(rank, to, at)?;
        implicit(rank, to, at, back)?;
        lists(rank, to, at)?;
        refusals(rank, to)?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(done)
}

/// Numbers of every size, aligned and not.
fn values(rank: &mut Rank<State>, to: RankId, at: u64) -> Result<(), Fault> {
    let wide = 0xFEDC_BA98_7654_3210_u64;
    for shift in 0..8 {
        let at = at + shift;
        rank.put_value(to, at, wide)?;
        expect(rank.get_value::<u64>(to, at)? == wide, "8 bytes")?;
        rank.put_value(to, at, 0x8765_4321_u32)?;
        expect(rank.get_value::<u32>(to, at)? == 0x8765_4321, "4 bytes")?;
        expect(rank.get_value::<u64>(to, at)? == wide & !0xFFFF_FFFF | 0x8765_4321, "the rest of 8 bytes")?;
        let event = rank.put_value_nb(to, at, 0x5A5A_u16)?;
        rank.wait(event)?;
        rank.put_value_nbi(to, at + 2, 0xA5_u8)?;
        rank.wait_nbi(Which::Puts)?;
        expect(rank.get_value::<u32>(to, at)? == 0x87A5_5A5A, "1 and 2 bytes")?;
    }
    Ok(())
}

/// Transfers without events, in access regions and outside, more than there are events.
fn implicit(rank: &mut Rank<State>, to: RankId, at: u64, back: u64) -> Result<(), Fault> {
    for i in 0..100 {
        rank.put_nbi(to, at + i * 8, &(i * 3).to_le_bytes())?;
    }
    rank.wait_nbi(Which::Puts)?;
    expect(rank.test_nbi(Which::All), "all are done")?;
    rank.get_nbi_into(to, at, SegRange { off: back, len: 800 })?;
    rank.wait_nbi(Which::Gets)?;
    for i in 0..100 {
        expect(rank.get_value::<u64>(rank.me(), back + i * 8)? == i * 3, "an implicit get")?;
    }
    let event = rank.region(|rank| {
        let inner = rank.region(|_| Ok(()));
        assert!(inner == Err(GasError::Region));
        rank.fill_nbi(to, at, 9, 2000)?;
        rank.put_nbi_from(to, at + 2000, SegRange { off: back, len: 800 })?;
        rank.get_nbi_into(to, at + 3000, SegRange { off: back + 1000, len: 5000 })
    })?;
    expect(rank.test_leaf(&event, Leaf::Local), "what was put is free")?;
    rank.wait_leaf(&event, Leaf::Puts)?;
    rank.wait_leaf(&event, Leaf::Gets)?;
    expect(rank.test_leaf(&event, Leaf::Puts), "a leaf stays done")?;
    // The region's event is not among those without one.
    rank.wait_nbi(Which::All)?;
    rank.wait(event)?;
    expect(rank.get_value::<u64>(to, at + 1992)? == 0x0909_0909_0909_0909, "a fill in a region")?;
    expect(rank.get_value::<u64>(to, at + 2000 + 99 * 8)? == 297, "a put in a region")?;
    let mut events = [const { Event::DONE }; 80];
    expect(rank.test_all(&mut events) && rank.test_some(&mut events), "none is under way")?;
    for (i, event) in events.iter_mut().enumerate() {
        *event = rank.put_value_nb(to, at + i as u64 * 4, i as u32)?;
    }
    while !rank.test_all(&mut events) {
        rank.wait_some(&mut events)?;
    }
    for (i, event) in events.iter_mut().enumerate() {
        *event = rank.put_value_nb(to, at + i as u64 * 4, i as u32 + 1)?;
    }
    rank.wait_all(&mut events)?;
    expect(events.iter().all(|event| *event == Event::DONE), "all were waited for")?;
    for i in 0..events.len() {
        expect(rank.get_value::<u32>(to, at + i as u64 * 4)? == i as u32 + 1, "a value with an event")?;
    }
    Ok(())
}

/// Lists whose pieces have other lengths on both sides, pieces of none among them.
fn lists(rank: &mut Rank<State>, to: RankId, at: u64) -> Result<(), Fault> {
    let data: [u8; 700] = core::array::from_fn(|i| pattern(at as u32, i));
    let there = [(40, 0), (5, 1), (300, 299), (1000, 400), (0, 0)].map(|(off, len)| SegRange { off: at + off, len });
    let (a, rest) = data.split_at(13);
    let (b, c) = rest.split_at(600);
    for is_nb in [false, true] {
        rank.fill(to, at, 0, 1500)?;
        if is_nb {
            let event = rank.put_vector_nb(to, &there, &[&[], a, b, c])?;
            rank.wait(event)?;
        } else {
            rank.put_vector(to, &there, &[a, b, &[], c])?;
        }
        let mut read = [0; 400];
        rank.get(to, at + 1000, &mut read)?;
        expect(read == data[300..], "the last piece")?;
        let (mut x, mut y) = ([0; 1], [0; 699]);
        rank.get_vector(to, &there, &mut [&mut x, &mut [], &mut y])?;
        expect(x[0] == data[0] && y == data[1..], "a get of a list")?;
    }
    let offs = [900, 0, 300].map(|off| at + off);
    rank.put_indexed(to, &offs, 50, &data[..150])?;
    let mut read = [0; 150];
    rank.get_indexed(to, &offs, 50, &mut read)?;
    expect(read == data[..150], "pieces of one length")?;
    rank.get(to, at, &mut read[..50])?;
    expect(read[..50] == data[50..100], "the second piece")?;
    rank.put_indexed(to, &[], 50, &[])?;
    rank.put_indexed(to, &offs, 0, &[])?;
    let unequal = Err(GasError::Lists { here: 13, there: 700 });
    expect(rank.put_vector(to, &there, &[a]) == unequal, "a short list")?;
    expect(rank.get_indexed(to, &offs, 51, &mut read).is_err(), "a short buffer")?;
    let end = rank.segment_len(to)?;
    let outside = [there[0], SegRange { off: end, len: 12 }, there[1]];
    expect(matches!(rank.put_vector(to, &outside, &[a]), Err(GasError::Reach { .. })), "a piece outside")?;
    Ok(())
}

/// What leaves a segment is refused by name, and nothing is written.
fn refusals(rank: &mut Rank<State>, to: RankId) -> Result<(), Fault> {
    let len = rank.segment_len(to)?;
    let none = RankId(rank.size());
    let own = SegRange { off: rank.segment_len(rank.me())? - 7, len: 8 };
    let mut byte = [0; 8];
    let refused = |result: Result<(), GasError>, at: RankId| {
        expect(matches!(result, Err(GasError::Reach { rank, .. }) if rank == at.0), "a transfer outside of a segment")
    };
    refused(rank.put(to, len - 7, &[1; 8]), to)?;
    refused(rank.get(to, len - 7, &mut byte), to)?;
    refused(rank.put(to, u64::MAX, &[1; 8]), to)?;
    refused(rank.fill(to, len - 1, 1, 2), to)?;
    refused(rank.fill(to, 1, 1, u64::MAX), to)?;
    refused(rank.put_nbi_from(to, 0, own), rank.me())?;
    refused(rank.get_nbi_into(to, 0, own), rank.me())?;
    refused(rank.get_nbi_into(to, len - 7, SegRange { off: 0, len: 8 }), to)?;
    expect(rank.put(none, 0, &[1]).is_err() && rank.get(none, 0, &mut byte).is_err(), "no rank")
}
