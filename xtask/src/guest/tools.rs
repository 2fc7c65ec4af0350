//! The stock tools of [`super::rdma`]: how each is called, and where its output says how fast it was.

use crate::Error;

/// A stock tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    arguments: &'static str,
    /// Of a message.
    bytes: u32,
    /// Of a packet at most.
    pub(super) mtu: u16,
    /// Where its output has a number that tells how fast it was.
    pub(super) figure: Figure,
}

#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// `… = 322.10 usec/iter`
    Iteration,
    /// `… to 127.0.0.1 and back: 322.10 µs each, …`
    There,
    /// A column of perftest's last row, from 0, and its unit.
    Column(usize, &'static str),
}

const LATENCY: Figure = Figure::Column(4, "us, typical");
const BANDWIDTH: Figure = Figure::Column(3, "MB/s, average");

/// With `-e` a tool sleeps until a completion: one that polls starves the guest's adapter. GID 1 is the IPv4 address.
pub(super) const PINGPONG: &str = "-e -g 1";
/// A busy machine's clock has no steady rate, which `-F` allows.
const PERFTEST: &str = "-F -x 1";
/// Messages, or round trips.
const ITERATIONS: u32 = 200;

/// With packets that fit into all Ethernet frames.
pub(super) const fn tool(name: &'static str, arguments: &'static str, bytes: u32, figure: Figure) -> Tool {
    Tool { name, arguments, bytes, mtu: 1024, figure }
}

/// With the longest packets that there are.
const fn long(tool: Tool) -> Tool {
    Tool { mtu: 4096, ..tool }
}

/// Those of one name are beside each other.
pub(super) const TOOLS: [Tool; 13] = [
    tool("ibv_rc_pingpong", PINGPONG, 4096, Figure::Iteration),
    long(tool("ibv_rc_pingpong", PINGPONG, 16384, Figure::Iteration)),
    // A datagram is one packet.
    long(tool("ibv_ud_pingpong", PINGPONG, 4096, Figure::Iteration)),
    tool("ibv_srq_pingpong", PINGPONG, 4096, Figure::Iteration),
    tool("ib_write_lat", PERFTEST, 2, LATENCY),
    tool("ib_read_lat", PERFTEST, 2, LATENCY),
    tool("ib_atomic_lat", PERFTEST, 8, LATENCY),
    tool("ib_send_lat", PERFTEST, 2, LATENCY),
    tool("ib_send_bw", PERFTEST, 65536, BANDWIDTH),
    tool("ib_write_bw", PERFTEST, 65536, BANDWIDTH),
    long(tool("ib_write_bw", PERFTEST, 65536, BANDWIDTH)),
    tool("ib_read_bw", PERFTEST, 65536, BANDWIDTH),
    long(tool("ib_read_bw", PERFTEST, 65536, BANDWIDTH)),
];

impl Tool {
    /// Its command line with an adapter of the guest.
    pub(super) fn command(&self, adapter: &str) -> String {
        let Self { name, arguments, bytes, mtu, .. } = self;
        // That of datagrams has no such argument.
        let mtu = if self.is_datagrams() { String::new() } else { format!(" -m {mtu}") };
        format!("{name} -d {adapter} {arguments}{mtu} -n {ITERATIONS} -s {bytes}")
    }

    /// Nothing sends its messages again.
    pub(super) fn is_datagrams(&self) -> bool {
        self.name == "ibv_ud_pingpong"
    }

    /// Both ends send messages of more than one packet, by SEND.
    pub(super) fn has_long_sends(&self) -> bool {
        self.name.starts_with("ibv_") && !self.is_datagrams() && self.bytes > u32::from(self.mtu)
    }

    /// How a peer is told of it.
    pub(super) fn told(&self) -> String {
        format!("{}:{ITERATIONS}:{}:{}", self.name, self.bytes, self.mtu)
    }

    /// It in a role, among others.
    pub(super) fn title(&self, role: &str) -> String {
        format!("{} {} {role}", self.name, self.mtu)
    }
}

/// Those of some names, separated by commas.
pub(super) fn select(wanted: &str) -> Result<Vec<&'static Tool>, Error> {
    let names = || {
        let mut names = TOOLS.map(|tool| tool.name).to_vec();
        names.dedup();
        names.join(", ")
    };
    let mut found = Vec::new();
    for name in wanted.split(',') {
        let before = found.len();
        found.extend(TOOLS.iter().filter(|tool| tool.name == name));
        if found.len() == before {
            return Err(Error::unknown(name, &names()));
        }
    }
    Ok(found)
}

impl Figure {
    /// The figure in a tool's output.
    pub(super) fn find(self, lines: &[String]) -> Option<String> {
        match self {
            Self::Iteration => lines.iter().rev().find_map(|line| {
                let number = line.strip_suffix(" usec/iter")?.rsplit(' ').next()?;
                Some(format!("{number:>10} us an iteration"))
            }),
            Self::There => lines.iter().rev().find_map(|line| {
                let number = line.split_once(" and back: ")?.1.split(' ').next()?;
                Some(format!("{number:>10} us an iteration"))
            }),
            Self::Column(column, unit) => lines.iter().rev().find_map(|line| {
                let row: Vec<&str> = line.split_whitespace().collect();
                let row: Option<Vec<f64>> = row.iter().map(|word| word.parse().ok()).collect();
                // On a busy machine perftest may fail to find its clock's rate, and then prints `inf` or zero.
                let number = row?.get(column).copied()?;
                Some(if number.is_finite() && number > 0.0 {
                    format!("{number:>10.2} {unit}")
                } else {
                    format!("{:>10}", "no clock")
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_what_the_tools_print() {
        let find = |figure: Figure, text: &str| figure.find(&text.lines().map(str::to_owned).collect::<Vec<_>>());
        let pingpong = "1638400 bytes in 0.06 seconds = 203.46 Mbit/sec\n200 iters in 0.06 seconds = 322.10 usec/iter";
        assert_eq!(find(Figure::Iteration, pingpong).as_deref(), Some("    322.10 us an iteration"));
        let ours = "2000 messages of 8 bytes to 127.0.0.3 and back: 97.31 µs each, 48.66 µs one way";
        assert_eq!(find(Figure::There, ours).as_deref(), Some("     97.31 us an iteration"));
        let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
                       2       200          51.01          92.50        79.04  80.62\n---";
        assert_eq!(find(LATENCY, latency).as_deref(), Some("     79.04 us, typical"));
        let bandwidth = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
                         65536      200              60.10              58.27                0.000932";
        assert_eq!(find(BANDWIDTH, bandwidth).as_deref(), Some("     58.27 MB/s, average"));
        assert_eq!(find(LATENCY, "8 200 inf inf inf inf -nan inf inf").as_deref(), Some("  no clock"));
        assert_eq!(find(BANDWIDTH, "65536 200 0.00 0.00 0.000000").as_deref(), Some("  no clock"));
        assert_eq!(find(LATENCY, "1 2"), None);
        assert_eq!(find(Figure::Iteration, "no route"), None);
    }
}
