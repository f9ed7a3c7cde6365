//! Classic BPF programs for listening sockets (kernel: Documentation/networking/filter.rst).

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use libc::{SKF_AD_CPU, SKF_AD_OFF, sock_filter};

/// An index without a listener. The kernel then uses its hash, as without a program
/// (`reuseport_select_sock` in net/core/sock_reuseport.c).
const BY_HASH: u32 = u32::MAX;

/// Offset of the flags in a TCP header (RFC 9293 section 3.1), and two of them.
const TCP_FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;

/// Chooses the listener of the lane that is pinned to the CPU which received the handshake; a CPU
/// without a lane falls back to the hash. `cpus` holds the CPU of each lane, in the order in
/// which their listeners joined the group.
///
/// `None` when that would leave a lane without connections: one is not pinned, or two share a CPU.
pub(super) fn by_receiving_cpu(cpus: &[Option<usize>]) -> Option<Vec<sock_filter>> {
    let mut program = vec![load(BPF_W, SKF_AD_OFF.wrapping_add(SKF_AD_CPU).cast_unsigned())];
    for (lane, cpu) in cpus.iter().enumerate() {
        let cpu = (*cpu)?;
        if cpus[..lane].contains(&Some(cpu)) {
            return None;
        }
        // Two instructions per lane: the maximum number of lanes fits into BPF_MAXINSNS (4,096).
        program.push(unless_equal(u32::try_from(cpu).ok()?, 1));
        program.push(give(u32::try_from(lane).ok()?));
    }
    program.push(give(BY_HASH));
    Some(program)
}

/// Leaves the choice to the kernel's hash.
pub(super) fn by_hash() -> Vec<sock_filter> {
    vec![give(BY_HASH)]
}

/// Drops segments that start a handshake and passes all others. A filter of a listening socket sees
/// the segment from its TCP header on (`tcp_filter` in net/ipv4/tcp_ipv4.c).
pub(super) fn no_new_handshake() -> Vec<sock_filter> {
    vec![
        load(BPF_B, TCP_FLAGS),
        instruction(BPF_ALU | BPF_AND | BPF_K, 0, SYN | ACK),
        unless_equal(SYN, 1),
        give(0),
        give(u32::MAX),
    ]
}

/// Loads from a fixed offset into the accumulator.
fn load(size: u32, at: u32) -> sock_filter {
    instruction(BPF_LD | size | BPF_ABS, 0, at)
}

/// Skips the next `skip` instructions unless the accumulator holds `value`.
fn unless_equal(value: u32, skip: u8) -> sock_filter {
    instruction(BPF_JMP | BPF_JEQ | BPF_K, skip, value)
}

/// Returns `value` from the program.
fn give(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, value)
}

fn instruction(code: u32, jf: u8, k: u32) -> sock_filter {
    // The instruction format has 16 bits for the code.
    sock_filter { code: code as u16, jt: 0, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::cpu::MAX_LANES;

    const CPU: u32 = (SKF_AD_OFF + SKF_AD_CPU).cast_unsigned();

    /// Executes a program as the kernel does, for the instructions used here.
    fn run(program: &[sock_filter], cpu: u32, segment: &[u8]) -> u32 {
        assert!(program.len() <= libc::BPF_MAXINSNS as usize);
        let (mut at, mut a) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    assert_eq!(k, CPU, "the only word that is loaded");
                    a = cpu;
                }
                code if code == BPF_LD | BPF_B | BPF_ABS => a = u32::from(segment[k as usize]),
                code if code == BPF_ALU | BPF_AND | BPF_K => a &= k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if a == k { jt } else { jf });
                }
                code if code == BPF_RET | BPF_K => return k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn each_cpu_leads_to_the_lane_that_is_pinned_to_it() {
        let sets: [&[usize]; 6] =
            [&[0], &[7], &[0, 1, 2, 3], &[1, 0], &[4, 5, 9, 31], &[1023, 2, 64, 3]];
        let every: Vec<usize> = (0..MAX_LANES).rev().collect();
        for cpus in sets.into_iter().chain([every.as_slice()]) {
            let pinned: Vec<_> = cpus.iter().map(|&cpu| Some(cpu)).collect();
            let program = by_receiving_cpu(&pinned).expect("a program");
            for cpu in 0..MAX_LANES + 8 {
                let lane = cpus.iter().position(|&pinned| pinned == cpu);
                let want = lane.map_or(BY_HASH, |lane| lane as u32);
                assert_eq!(run(&program, cpu as u32, &[]), want, "CPU {cpu} of {cpus:?}");
            }
        }
    }

    #[test]
    fn no_lane_is_left_without_connections() {
        assert!(by_receiving_cpu(&[Some(0), None]).is_none(), "a lane that is not pinned");
        assert!(by_receiving_cpu(&[Some(3), Some(1), Some(3)]).is_none(), "two on a CPU");
        assert_eq!(run(&by_hash(), 0, &[]), BY_HASH);
    }

    #[test]
    fn only_a_segment_that_begins_a_handshake_is_dropped() {
        const FIN: u8 = 0x01;
        const RST: u8 = 0x04;
        const PSH: u8 = 0x08;
        const ECE_CWR: u8 = 0xc0;
        let (syn, ack) = (SYN as u8, ACK as u8);
        let passes = |flags: u8| {
            let mut header = [0xff; 20];
            header[TCP_FLAGS as usize] = flags;
            run(&no_new_handshake(), 0, &header) != 0
        };
        assert!(!passes(syn));
        assert!(!passes(syn | ECE_CWR), "a SYN that offers ECN (RFC 3168 section 6.1.1)");
        for flags in [ack, ack | PSH, ack | FIN, RST, RST | ack, syn | ack] {
            assert!(passes(flags), "{flags:#x}");
        }
    }
}
