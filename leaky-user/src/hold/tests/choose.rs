use crate::hold::{Error, HoldKind, HoldMode, choose};

fn chosen(mode: HoldMode, fq: bool, htb: bool, tbf: bool) -> Option<HoldKind> {
    choose(mode, false, fq, htb, tbf)
        .ok()
        .map(|choice| choice.hold.kind())
}

#[test]
fn every_combination() {
    use HoldKind::{Fq, Htb};
    use HoldMode::{self as Mode, Auto};
    for (fq, htb, tbf, auto) in [
        (true, true, true, Some(Fq)),
        (true, false, false, Some(Fq)),
        (true, true, false, Some(Fq)),
        (false, true, true, Some(Htb)),
        (false, true, false, None),
        (false, false, true, None),
        (false, false, false, None),
    ] {
        assert_eq!(chosen(Auto, fq, htb, tbf), auto);
        assert_eq!(chosen(Mode::Fq, fq, htb, tbf), fq.then_some(Fq));
        assert_eq!(chosen(Mode::Htb, fq, htb, tbf), (htb && tbf).then_some(Htb));
    }
}

#[test]
fn the_reason_and_the_way_out_are_named() {
    let reason = |mode, fq, htb| choose(mode, false, fq, htb, true).expect("a hold").reason;
    assert_eq!(reason(HoldMode::Fq, true, true), "asked for");
    assert!(reason(HoldMode::Auto, false, true).contains("sch_fq"));
    let missing = |mode, htb, tbf| match choose(mode, false, false, htb, tbf).expect_err("no hold")
    {
        error @ Error::Missing { .. } => error.to_string(),
        other => panic!("{other}"),
    };
    let both = missing(HoldMode::Auto, false, false);
    assert!(both.contains("sch_fq") && both.contains("sch_htb") && both.contains("modprobe"));
    assert!(missing(HoldMode::Auto, true, false).contains("sch_tbf"));
    assert!(missing(HoldMode::Fq, true, true).contains("modprobe sch_fq"));
    assert!(missing(HoldMode::Htb, false, false).contains("modprobe sch_htb"));
    assert!(missing(HoldMode::Htb, true, false).contains("modprobe sch_tbf"));
}

#[test]
fn a_limited_link_needs_tbf() {
    for mode in [HoldMode::Auto, HoldMode::Fq] {
        let kind = |tbf| choose(mode, true, true, true, tbf).map(|c| c.hold.kind());
        assert_eq!(kind(true).ok(), Some(HoldKind::Fq));
        let error = kind(false).expect_err("no tbf").to_string();
        assert!(
            error.contains("limit of the link") && error.contains("modprobe sch_tbf"),
            "{error}"
        );
    }
}

#[test]
fn modes_as_typed() {
    for mode in [HoldMode::Auto, HoldMode::Fq, HoldMode::Htb] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert!(
        "FQ".parse::<HoldMode>()
            .expect_err("case")
            .contains("auto, fq or htb")
    );
}
