//! The parser is lossless, total, and linear.

use fusewire_asn1::tree::Event;
use fusewire_asn1::{File, Source, check};
use rustix::time::{ClockId, clock_gettime};

/// What this thread has had of the processor, whoever else wants it.
fn seconds_of_thread() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Reads a text and checks that the tree holds all of it.
fn parse(text: &str) -> File {
    let file = File::parse(0, Source::new("test.asn1", text.as_bytes()));
    let mut whole = String::new();
    let mut depth = 0_i32;
    for event in file.tree.events() {
        match *event {
            Event::Open(_) => depth += 1,
            Event::Close => depth -= 1,
            Event::Token(n) => whole += file.source.slice(file.tree.tokens()[n as usize].span),
        }
        assert!(depth >= 0);
    }
    assert_eq!(depth, 0);
    assert_eq!(whole, text);
    file
}

fn errors(text: &str) -> Vec<(u32, String)> {
    let file = parse(text);
    let errors = file.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| (d.position(&file.source).line, d.message.clone())).collect()
}

#[test]
fn goes_on_after_an_error() {
    let text = "M DEFINITIONS ::= BEGIN\nA ::= SEQUENCE { a INTEGER,\n b 3,\n c }\nB := INTEGER\nC ::= BOOLEAN\nEND\n";
    let file = parse(text);
    let found = errors(text);
    assert_eq!(found.iter().map(|e| e.0).collect::<Vec<_>>(), [3, 4, 5], "{found:?}");
    assert_eq!(file.modules[0].assignments.len(), 3);
}

#[test]
fn what_is_missing_is_missed_where_it_should_stand() {
    assert_eq!(errors("M DEFINITIONS ::= BEGIN\nA ::= SEQUENCE\nB ::= INTEGER\nEND")[..].len(), 0);
    let found = errors("M DEFINITIONS ::= BEGIN\nA ::= OCTET\nB ::= INTEGER\nEND");
    assert_eq!(found, [(2, "expected `STRING`, found `B`".to_owned())]);
}

#[test]
fn depth_is_bounded() {
    for (open, close) in [("SEQUENCE OF ", ""), ("CHOICE { a ", "}"), ("A (", ")"), ("[1] A{", "}")]
    {
        let text = format!(
            "M DEFINITIONS ::= BEGIN A ::= {}{}\nEND",
            open.repeat(20_000),
            close.repeat(20_000)
        );
        parse(&text);
    }
    parse(&format!(
        "M DEFINITIONS ::= BEGIN a A ::= {}{} END",
        "{".repeat(50_000),
        "}".repeat(50_000)
    ));
}

#[test]
fn prefixes_of_a_module_end_without_panic() {
    let text = "M {iso 1} DEFINITIONS AUTOMATIC TAGS ::= BEGIN EXPORTS A; IMPORTS B FROM C {1 2}; \
        A{T} ::= SEQUENCE (SIZE (1..5, ...)) OF [1] IMPLICIT CHOICE { a NULL, ..., [[ b REAL ]] } \
        x C ::= { ID {1 2} TYPE A } C ::= CLASS { &id INTEGER UNIQUE } WITH SYNTAX { [ID &id] } \
        O MACRO ::= BEGIN TYPE NOTATION ::= empty VALUE NOTATION ::= empty END END";
    for end in 0..text.len() {
        parse(&text[..end]);
        parse(&format!("{}{}", &text[..end], &text[(end + 7).min(text.len())..]));
    }
}

/// Twice the text takes about twice the time, whatever it is made of.
#[test]
fn time_is_linear() {
    let patterns = [
        "A ::= SEQUENCE { a INTEGER (1..5), b SET OF B OPTIONAL }\n",
        "a B ::= {",
        "A ::= B {",
        "{ ( [[ ",
        "a OPERATION ARGUMENT B ",
        "/* ",
        "'0 \" ",
        "a B ::= { x y, ",
        "IMPORTS a FROM B ",
        "A (1 | ",
        "A ::= CHOICE { ",
        "} ) ",
        "A DEFINITIONS ::= BEGIN ",
        "A { ",
        "a B ::= c D ::= SEQUENCE { COMPONENTS OF E } ",
        "A ::= B{C} A{B, c} ::= A ",
    ];
    for pattern in patterns {
        let text = |bytes: usize| {
            format!("M DEFINITIONS ::= BEGIN {}", pattern.repeat(bytes / pattern.len()))
        };
        let time = |text: &str| {
            let once = || {
                let start = seconds_of_thread();
                check(vec![Source::new("large", text.as_bytes())]);
                seconds_of_thread() - start
            };
            once().min(once())
        };
        let (small, large) = (text(1 << 17), text(1 << 20));
        let (small, large) = (time(&small), time(&large));
        assert!(
            large < 1.0 || large < 40.0 * small.max(0.005),
            "{pattern:?}: {small} s and {large} s"
        );
    }
}

/// The same for what is checked: many names, tags, values and constraints of one type.
#[test]
fn checks_are_linear() {
    let begin = "M DEFINITIONS ::= BEGIN ";
    let list = |what: &str, n: usize| -> String {
        (0..n).map(|i| what.replace('#', &i.to_string())).collect::<Vec<_>>().join(", ")
    };
    let texts: [&dyn Fn(usize) -> String; 6] = [
        &|n| {
            format!(
                "A ::= SEQUENCE {{ {} }}",
                list("a# [#] B OPTIONAL", n) + "} B ::= CHOICE {" + &list("b# [#] NULL", n)
            )
        },
        &|n| {
            format!(
                "A ::= SEQUENCE {{ {} }} B ::= A (WITH COMPONENTS {{ {} }})",
                list("a# [#] NULL OPTIONAL", n),
                list("a# ABSENT", n)
            )
        },
        &|n| {
            format!(
                "A ::= SEQUENCE {{ {} }} E ::= ENUMERATED {{ {} }}",
                list("a# [#] E DEFAULT e#", n),
                list("e#", n)
            )
        },
        &|n| (0..n).map(|i| format!("A{i} ::= SEQUENCE {{ COMPONENTS OF B{} }} ", i / 2)).collect(),
        &|n| {
            format!(
                "A ::= SEQUENCE {{ {} }} a A ::= {{ {} }}",
                list("a# [#] B", n),
                list("a# b#", n)
            )
        },
        &|n| format!("A ::= CHOICE {{ {} }}", list("a# A", n)),
    ];
    for (which, text) in texts.iter().enumerate() {
        let time = |n: usize| {
            let text = format!("{begin}{} END", text(n));
            let once = || {
                let start = seconds_of_thread();
                check(vec![Source::new("large", text.as_bytes())]);
                seconds_of_thread() - start
            };
            once().min(once())
        };
        let (small, large) = (time(2_500), time(20_000));
        assert!(large < 1.0 || large < 30.0 * small.max(0.005), "{which}: {small} s and {large} s");
    }
}

/// What is said of a text: each warning, and whether it is an error.
fn said(text: &str) -> Vec<(bool, String)> {
    let checked = fusewire_asn1::check(vec![Source::new("m.asn1", text.as_bytes())]);
    checked.diagnostics.iter().map(|d| (d.is_error(), d.message.clone())).collect()
}

#[test]
fn what_can_mean_one_thing_only_is_a_warning() {
    let cases = [
        (
            "M DEFINITIONS ::= BEGIN B ::= BIT STRING b B ::= ''101''B END",
            "apostrophes are doubled",
        ),
        ("M DEFINITIONS ::= BEGIN E ::= ENUMERATED { a(0), , b(2) } END", "an item is empty"),
        (
            "M DEFINITIONS ::= BEGIN A ::= NULL A ::= -- again -- NULL END",
            "`A` is defined twice, word for word",
        ),
        (
            "M DEFINITIONS ::= BEGIN E ::= ENUMERATED { a, b } S ::= SEQUENCE { e E DEFAULT Bee } \
             bee E ::= b END",
            "`Bee` is the name of a type",
        ),
        (
            "M DEFINITIONS ::= BEGIN A ::= NULL END\nAnnex B ' (of \u{e9}) \nN DEFINITIONS ::= BEGIN \
             B ::= NULL END",
            "text behind the module's END",
        ),
    ];
    for (text, warning) in cases {
        assert_eq!(said(text), [(false, warning.to_owned())], "{text}");
    }
}

#[test]
fn what_could_mean_two_things_is_an_error() {
    let cases = [
        "M DEFINITIONS ::= BEGIN A ::= NULL A ::= BOOLEAN END",
        "M DEFINITIONS ::= BEGIN A ::= NULL END Annex ::= B",
        "M DEFINITIONS ::= BEGIN A ::= NULL END N ::= BEGIN B ::= NULL END",
        "M DEFINITIONS ::= BEGIN E ::= ENUMERATED { a } S ::= SEQUENCE { e E DEFAULT Bee } END",
        "M DEFINITIONS ::= BEGIN B ::= BIT STRING b B ::= ''102''B END",
    ];
    for text in cases {
        assert!(said(text).iter().any(|(is_error, _)| *is_error), "{text}: {:?}", said(text));
    }
}

#[test]
fn lists_of_themselves_are_generated() {
    use fusewire_asn1::rust::{Encoding, Options, generate};
    let text = "M DEFINITIONS ::= BEGIN T ::= SEQUENCE OF T A ::= SET OF B B ::= [1] SEQUENCE OF A \
                S ::= SEQUENCE { a A, t T OPTIONAL } END";
    let file = parse(text);
    let encodings = vec![Encoding::Ber, Encoding::Oer, Encoding::Xdr, Encoding::Lws];
    let modules = generate([&file], &Options { encodings, ..Options::default() });
    assert!(modules[0].text.contains("pub struct T(pub Vec<T>);"), "{}", modules[0].text);
}

#[test]
fn absurd_sizes_of_text_are_generated() {
    use fusewire_asn1::rust::{Encoding, Options, generate};
    let file = parse("M DEFINITIONS ::= BEGIN U ::= UniversalString (SIZE (2000000000)) END");
    for encodings in [vec![Encoding::Oer], vec![Encoding::Ber]] {
        generate([&file], &Options { encodings, ..Options::default() });
    }
}
