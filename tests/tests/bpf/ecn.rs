//! The mark of congestion, on packets of those who understand it.

use crate::compiled::Classes;
use crate::rig::*;
use etherparse::Ipv4HeaderSlice;
use leaky_user::bpf::Kind;

const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// At 1 kbit/s a packet of 1,000 B takes 8 s: the third waits more than 10 s, the second does not.
fn classes() -> Result<Classes, Failed> {
    Classes::new(
        Kind::DepartureTime,
        "[[interface.class]]\nname = \"a\"\nrate = \"1kbit\"\ncapacity = \"12500B\"\n\
         max-wait = \"1000s\"\necn = \"10s\"\n",
    )
}

/// AF41 (34) and this.
fn v4(ecn: u8) -> Vec<u8> {
    let mut frame = udp(1, 1_000);
    frame[15] = 34 << 2 | ecn;
    let checksum = Ipv4HeaderSlice::from_slice(&frame[14..34])
        .unwrap()
        .to_header()
        .calc_header_checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn v6(ecn: u8) -> Vec<u8> {
    let mut frame = udp6([1; 16], [2; 16]);
    let class = 34 << 2 | ecn;
    frame[14] = 0x60 | class >> 4;
    frame[15] = class << 4 | 0x05;
    frame
}

pub(crate) fn a_long_wait_is_marked_on_those_who_understand() -> Outcome {
    for version in [4, 6] {
        for (ecn, after) in [(NOT_ECT, NOT_ECT), (ECT_0, CE), (ECT_1, CE), (CE, CE)] {
            let mut classes = classes()?;
            let frame = if version == 4 { v4(ecn) } else { v6(ecn) };
            for packet in 1..=4 {
                let what = format!("IPv{version}, ECN {ecn}, packet {packet}");
                let (verdict, out) = classes.send_and_look(&frame)?;
                equal(&what, verdict, NEXT)?;
                let wanted = if packet > 2 { after } else { ecn };
                let mut expected = if version == 4 { v4(wanted) } else { v6(wanted) };
                expected.truncate(out.len());
                check(
                    out == expected,
                    format!(
                        "{what}: {:02x?}, wanted {:02x?}",
                        &out[14..34],
                        &expected[14..34]
                    ),
                )?;
                if version == 4 {
                    let header = Ipv4HeaderSlice::from_slice(&out[14..34])
                        .unwrap()
                        .to_header();
                    equal(&what, header.header_checksum, header.calc_header_checksum())?;
                    equal(&what, header.dscp.value(), 34)?;
                }
            }
            let marked = if ecn == NOT_ECT { 0 } else { 2 };
            equal("marked", classes.counted("a")?.marked.packets, marked)?;
        }
    }
    Ok(())
}

pub(crate) fn a_mark_does_not_touch_the_vlan_tag() -> Outcome {
    let mut classes = classes()?;
    for _ in 0..2 {
        classes.send(&v4(NOT_ECT), &Context::new())?;
    }
    let mut wrong = Vec::new();
    for vlan in [100, 101, 102, 103] {
        for (tags, frame, marked) in [
            (1, tagged(&v4(ECT_0), vlan), tagged(&v4(CE), vlan)),
            (
                2,
                tagged(&tagged(&v4(ECT_0), 7), vlan),
                tagged(&tagged(&v4(CE), 7), vlan),
            ),
        ] {
            let before = classes.counted("a")?.marked.packets;
            let (_, out) = classes.send_and_look(&frame)?;
            let counted = classes.counted("a")?.marked.packets - before;
            if counted != u64::from(out == marked) || out != frame && out != marked {
                wrong.push(format!(
                    "{tags} tags, VLAN {vlan}, counted {counted}: {:02x?} became {:02x?}",
                    &frame[12..26],
                    &out[12..26]
                ));
            }
        }
    }
    check(wrong.is_empty(), wrong.join("\n"))
}
