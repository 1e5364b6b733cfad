//! The list of forms that compute in registers, load or store.

use loopwright_pipeline::isa::arm64::catalogue::{forms, Form};
use loopwright_pipeline::isa::arm64::decode;
use loopwright_pipeline::isa::inst::{Decoded, Effect, VECTOR};
use loopwright_pipeline::isa::label::FLAGS;
use std::sync::LazyLock;

/// Forms where words of three are no instructions, and names of which no word was found.
static ALL: LazyLock<(Vec<Form>, Vec<String>)> = LazyLock::new(|| forms(allocated));

/// The forms whose words are no instructions.
const MISSING: [&str; 3] = ["add 2s", "add 4h", "add 8b"];

fn allocated(word: u32) -> bool {
    word & 0xff20_fc00 != 0x0e20_8400 // no vector addition of 8 bytes
}

fn decoded(word: u32) -> Decoded {
    decode(&word.to_le_bytes()).unwrap().remove(0)
}

/// The word of a form with registers from `first` on, one for each operand.
fn word(form: &Form, first: u32) -> u32 {
    form.operands.iter().zip(first..).fold(form.word, |word, (operand, n)| {
        let fields = &operand.fields;
        fields.iter().fold(word, |word, low| word & !(0x1f << low) | n << low)
    })
}

#[test]
fn registers_are_chosen_by_their_fields() {
    let (found, lost) = &*ALL;
    // Products of 8-bit floats name elements by bits of several fields; registers move bases.
    let structures = |name: &str| (name.starts_with("ld") || name.starts_with("st")) && name.ends_with("[x],x");
    let known = |name: &String| name.starts_with("fmlal") || structures(name) || MISSING.contains(&name.as_str());
    assert!(lost.iter().all(known), "{lost:?}");
    assert!(found.len() > 2000, "{}", found.len());
    for form in found {
        let d = decoded(word(form, 5));
        assert_eq!(d.form, form.name);
        for (operand, n) in form.operands.iter().zip(5..) {
            let register = if operand.vector { VECTOR + n } else { n };
            let reads: Vec<_> = d.reads.iter().filter(|r| r.0 == operand.label).collect();
            assert_eq!(reads.len(), if operand.read { operand.count } else { 0 }, "{form:?}");
            assert!(reads.iter().zip(register..).all(|(r, n)| r.1 == n), "{form:?} {d:?}");
            assert_eq!(
                d.writes.contains(&(operand.label, register)),
                operand.written,
                "{form:?}"
            );
        }
        let flags = |some: &[(u8, u8)]| some.iter().any(|r| r.0 == FLAGS);
        assert_eq!(
            (form.reads_flags, form.writes_flags),
            (flags(&d.reads), flags(&d.writes))
        );
    }
}

#[test]
fn forms_are_those_of_the_tables() {
    let found = &ALL.0;
    let of = |name: &str| {
        found
            .iter()
            .find(|form| form.name == name)
            .map(|form| form.operands.len())
    };
    let known = [
        ("add x,x,x", 3),
        ("madd x,x,x,x", 4),
        ("madd x,x,x", 3),
        ("mov x,x", 2),
        ("mov x,z", 1),
        ("extr x,x,i", 2),
        ("extr x,x,x,i", 3),
        ("movi q,0", 1),
        ("movk x,i", 1),
        ("adr x,i", 1),
        ("ccmp w,i", 1),
        ("fcmp d", 2),
        ("fcsel s", 3),
        ("ins e,r", 2),
        ("tbx 16b,4", 3),
        ("aese", 2),
        ("mul 4s,e", 3),
        ("mov 16b", 2),
        ("subs x,x,x,ext", 3),
    ];
    for (name, operands) in known {
        assert_eq!(of(name), Some(operands), "{name}");
    }
    for name in ["ldr x,literal", "ld1 1q,[x],x", "ldxr x,[x]", "b", "ret", "nop", "cbz"] {
        assert_eq!(of(name), None, "{name}");
    }
}

#[test]
fn accesses_are_those_of_the_words() {
    let found = &ALL.0;
    let known = [
        ("ldr x,[x,i]", 8, true, false, Some((12, 8, false))),
        ("strb w,[x,i]", 1, false, false, Some((12, 1, false))),
        ("ldtr w,[x,i]", 4, true, false, Some((9, 1, true))),
        ("stp q,q,[x,i]", 32, false, false, Some((7, 16, true))),
        ("ldp x,x,[x],i", 16, true, true, None),
        ("str q,[x,i]!", 16, false, true, None),
        ("ldr x,[x,x,3]", 8, true, false, None),
        ("ld1 4q,[x]", 64, true, false, None),
        ("st1 2d,[x]", 16, false, false, None),
        ("ld1 s,e,[x]", 4, true, false, None),
        ("st1 3q,[x],i", 48, false, true, None),
    ];
    for (name, bytes, read, moves, field) in known {
        let form = found
            .iter()
            .find(|form| form.name == name)
            .unwrap_or_else(|| panic!("{name}"));
        let access = form.access.unwrap();
        let said = access.displacement.map(|f| (f.width, f.step, f.signed));
        assert_eq!((access.bytes, access.moves, said), (bytes, moves, field), "{name}");
        assert_eq!((access.read, access.write), (read, !read), "{name}");
        let Some(field) = access.displacement else {
            continue;
        };
        let d = decoded(form.word | 3 << field.low);
        assert_eq!((d.form.as_str(), d.mems[0].disp), (name, 3 * field.step));
    }
    // The base stays where it is, but for structures, which move it on by what they access.
    for form in found {
        let Some(access) = form.access else {
            continue;
        };
        let d = decoded(form.word);
        assert_eq!(d.mems[0].disp, 0, "{form:?}");
        let moved = |e: &Effect| matches!(e, Effect::Offset { to, from, add } if to == from && *add == access.by);
        assert!(d.effects.iter().all(moved), "{form:?}");
        assert!(access.by == 0 || access.by == i64::from(access.bytes), "{form:?}");
    }
}

#[test]
fn a_word_that_is_no_instruction_is_not_listed() {
    let (found, lost) = &*ALL;
    assert!(found.iter().all(|form| allocated(form.word)));
    for missing in MISSING {
        assert!(lost.iter().any(|name| name == missing), "{missing}: {lost:?}");
    }
}
