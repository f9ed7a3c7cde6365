//! A classic BPF program for listening sockets (kernel: Documentation/networking/filter.rst).

use libc::sock_filter;
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};

/// Offset of the flags in a TCP header (RFC 9293 section 3.1), and two of the flags.
const TCP_FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;

/// Drops segments that start a handshake and passes all other segments. A listening socket's filter
/// sees the segment starting at its TCP header (`tcp_filter` in net/ipv4/tcp_ipv4.c).
pub(super) fn no_new_handshake() -> Vec<sock_filter> {
    vec![
        instruction(BPF_LD | BPF_B | BPF_ABS, 0, TCP_FLAGS),
        instruction(BPF_ALU | BPF_AND | BPF_K, 0, SYN | ACK),
        // Skips the next instruction unless the values are equal.
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 1, SYN),
        give(0),
        give(u32::MAX),
    ]
}

fn give(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, value)
}

fn instruction(code: u32, jf: u8, k: u32) -> sock_filter {
    // The code field has 16 bits.
    sock_filter { code: code as u16, jt: 0, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes a program as the kernel does, for the instructions used here.
    fn run(program: &[sock_filter], segment: &[u8]) -> u32 {
        assert!(program.len() <= libc::BPF_MAXINSNS as usize);
        let (mut at, mut a) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
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
    fn only_a_segment_that_begins_a_handshake_is_dropped() {
        const FIN: u8 = 0x01;
        const RST: u8 = 0x04;
        const PSH: u8 = 0x08;
        const ECE_CWR: u8 = 0xc0;
        let (syn, ack) = (SYN as u8, ACK as u8);
        let passes = |flags: u8| {
            let mut header = [0xff; 20];
            header[TCP_FLAGS as usize] = flags;
            run(&no_new_handshake(), &header) != 0
        };
        assert!(!passes(syn));
        assert!(!passes(syn | ECE_CWR), "a SYN that offers ECN (RFC 3168 section 6.1.1)");
        for flags in [ack, ack | PSH, ack | FIN, RST, RST | ack, syn | ack] {
            assert!(passes(flags), "{flags:#x}");
        }
    }
}
