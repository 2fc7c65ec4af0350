//! A wire that loses, repeats, reorders and damages what is sent, by a seed: over queues in tests, and before any real
//! wire.

use std::collections::BTreeMap;
use std::str::FromStr;

/// How often each happens, in thousandths of what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Where chance begins.
    pub seed: u64,
    /// It does not come.
    pub loss: u16,
    /// It comes twice.
    pub repeat: u16,
    /// It comes with a bit changed.
    pub damage: u16,
    /// By how many others at most one is overtaken that are sent in a row.
    pub reorder: u16,
}

impl FromStr for Plan {
    type Err = String;

    /// `seed,loss,repeat,damage,reorder`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected seed,loss,repeat,damage,reorder, got {text:?}");
        let (seed, rest) = text.split_once(',').ok_or_else(wrong)?;
        let rest: Result<Vec<u16>, _> = rest.split(',').map(str::parse).collect();
        match (seed.parse(), rest.as_deref()) {
            (Ok(seed), Ok(&[loss, repeat, damage, reorder])) => Ok(Self { seed, loss, repeat, damage, reorder }),
            _ => Err(wrong()),
        }
    }
}

/// Packets on their way, of which each is for some `T` (see the module).
pub struct Faults<T> {
    plan: Plan,
    random: u64,
    /// Packets sent, and those on their way by when they come.
    sent: u64,
    on_their_way: BTreeMap<(u64, u64), (T, Vec<u8>)>,
}

impl<T: Copy> Faults<T> {
    /// A wire without packets.
    pub fn new(plan: Plan) -> Self {
        Self { plan, random: plan.seed, sent: 0, on_their_way: BTreeMap::new() }
    }

    /// Sends a packet. It is copied.
    pub fn push(&mut self, to: T, packet: &[u8]) {
        let Plan { loss, repeat, damage, reorder, .. } = self.plan;
        if self.happens(loss) {
            return;
        }
        for _ in 0..=u8::from(self.happens(repeat)) {
            self.sent += 1;
            let mut packet = packet.to_vec();
            if self.happens(damage) {
                let bit = self.below(8 * packet.len() as u64);
                if let Some(byte) = packet.get_mut(bit as usize / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            let late = self.below(u64::from(reorder) + 1);
            self.on_their_way.insert((self.sent + late, self.sent), (to, packet));
        }
    }

    /// The packet that comes next.
    pub fn pop(&mut self) -> Option<(T, Vec<u8>)> {
        self.on_their_way.pop_first().map(|(_, packet)| packet)
    }

    fn happens(&mut self, thousandths: u16) -> bool {
        self.below(1000) < u64::from(thousandths)
    }

    /// A number below `end` (SplitMix64; Steele, Lea, Flood, 2014).
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(plan: Plan, count: u32) -> Vec<u32> {
        let mut wire = Faults::new(plan);
        (0..count).for_each(|number| wire.push((), &number.to_be_bytes()));
        std::iter::from_fn(|| wire.pop())
            .map(|(_, packet)| u32::from_be_bytes(packet.try_into().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn each_fault_happens_as_often_as_planned() {
        let all: Vec<u32> = (0..10_000).collect();
        assert_eq!(come(Plan::default(), 10_000), all);
        let near = |got: usize, expected: usize| assert!(got.abs_diff(expected) < 100, "{got}, expected {expected}");
        near(come(Plan { loss: 50, ..Plan::default() }, 10_000).len(), 9_500);
        near(come(Plan { repeat: 50, ..Plan::default() }, 10_000).len(), 10_500);
        let damaged = come(Plan { damage: 50, ..Plan::default() }, 10_000);
        near(damaged.iter().zip(&all).filter(|(a, b)| (*a ^ *b).count_ones() == 1).count(), 500);
        let reordered = come(Plan { reorder: 3, ..Plan::default() }, 10_000);
        assert!(reordered.iter().zip(&all).all(|(a, b)| a.abs_diff(*b) <= 3) && reordered != all);
        assert_eq!(
            come(Plan { seed: 1, loss: 500, ..Plan::default() }, 100),
            come("1,500,0,0,0".parse().expect("a plan"), 100)
        );
        assert!(
            ["", "1", "1,2,3,4", "1,2,3,4,5,6", "1,2,3,4,5,x", "1,2,3,4,5,65536", "1,2,3,4,65536", "x"]
                .iter()
                .all(|text| text.parse::<Plan>().is_err())
        );
    }
}
