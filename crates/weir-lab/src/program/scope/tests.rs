use super::*;
use crate::program::{Feeder, NumberFormat, TextPart};
use std::sync::Arc;

fn with_scope<T>(program: &Program, run: impl FnOnce(&mut Scope<'_>) -> T) -> T {
    let state = State::new(program);
    let mut values = Values::new(program, &state, 0, 6, 1);
    run(&mut Scope { program, state: &state, values: &mut values })
}

#[test]
fn a_variable_without_value_stays_as_it_is_written() {
    let mut program = Program::default();
    let (known, unknown) = (program.variable("known"), program.variable("unknown"));
    program.initial = vec![(known, Text::fixed("1"))];
    let text = Text::from_parts([
        TextPart::Variable(known),
        TextPart::Literal("-".into()),
        TextPart::Variable(unknown),
    ]);
    assert_eq!(with_scope(&program, |scope| text.render(scope).into_owned()), "1-${unknown}");
}

#[test]
fn functions_have_their_values() {
    let mut program = Program::default();
    let kept = program.variable("kept");
    program.properties = vec![("p".to_owned(), "v".to_owned())];
    let call = |function: Function| Text::from_parts([function.into()]);
    with_scope(&program, |scope| {
        let random = Function::Random { min: Text::fixed("3"), max: Text::fixed("4") };
        let random = Text::from_parts([TextPart::Function {
            function: Box::new(random),
            store_in: Some(kept),
        }]);
        let mut seen = [false; 2];
        for _ in 0..64 {
            let number: usize = random.render(scope).parse().unwrap();
            assert_eq!(scope.values.get(kept), Some(number.to_string().as_str()));
            seen[number - 3] = true;
        }
        assert_eq!(seen, [true, true], "both ends come");
        let string = Function::RandomString { length: Text::fixed("5"), of: Text::fixed("ab") };
        let text = call(string).render(scope).into_owned();
        assert!(text.len() == 5 && text.chars().all(|c| "ab".contains(c)), "{text}");
        assert_eq!(call(Function::UserNumber).render(scope), "7");
        let property = |name: &str| Function::Property {
            name: Text::fixed(name),
            default: Text::fixed("none"),
        };
        assert_eq!(call(property("p")).render(scope), "v");
        assert_eq!(call(property("q")).render(scope), "none");
        let set = Function::SetProperty {
            name: Text::fixed("q"),
            value: Text::fixed("set"),
            return_old: false,
        };
        assert_eq!(call(set).render(scope), "");
        assert_eq!(call(property("q")).render(scope), "set");
        assert_eq!(call(Function::Uuid).render(scope).len(), 36);
    });
}

#[test]
fn a_counter_restarts_after_its_maximum() {
    let mut program = Program::default();
    let variable = program.variable("n");
    program.counters = vec![Counter {
        variable,
        start: Text::fixed("1"),
        increment: Text::fixed("2"),
        maximum: Text::fixed("6"),
        format: NumberFormat::new("id000").expect("a format"),
        share: Share::User,
        reset_each_iteration: false,
    }];
    let values = |program: &Program, count: usize| -> Vec<String> {
        with_scope(program, |scope| (0..count).map(|_| scope.count(CounterId(0))).collect())
    };
    assert_eq!(values(&program, 4), ["id001", "id003", "id005", "id001"]);
    let counter = &mut program.counters[0];
    (counter.start, counter.maximum) = (Text::fixed("-5"), Text::default());
    assert_eq!(values(&program, 2), ["-id005", "-id003"], "the sign is no digit");
    // JMeter starts again each time.
    let counter = &mut program.counters[0];
    (counter.start, counter.maximum) = (Text::fixed("10"), Text::fixed("5"));
    assert_eq!(values(&program, 2), ["id010", "id010"]);
}

#[test]
fn a_feeder_recycles_ends_or_has_eof_values() {
    let mut program = Program::default();
    let variable = program.variable("row");
    let mut feeder = Feeder {
        variables: vec![variable],
        rows: vec![vec!["a".into()], vec!["b".into()]],
        recycle: true,
        ..Feeder::default()
    };
    let take = |feeder: &Feeder| {
        let mut program = program.clone();
        program.feeders = vec![Arc::new(feeder.clone())];
        with_scope(&program, |scope| {
            let row = |scope: &mut Scope<'_>| {
                scope
                    .feed(FeederId(0))
                    .expect("rows")
                    .then(|| scope.values.get(variable).map(str::to_owned))
            };
            (0..3).map(|_| row(scope).flatten().unwrap_or_default()).collect::<Vec<_>>()
        })
    };
    assert_eq!(take(&feeder), ["a", "b", "a"]);
    feeder.recycle = false;
    assert_eq!(take(&feeder), ["a", "b", "<EOF>"]);
    feeder.stop_user = true;
    assert_eq!(take(&feeder), ["a", "b", ""]);
}

#[test]
fn values_and_texts_are_bounded() {
    let program =
        Program { variables: vec!["a".to_owned()], dynamic_names: true, ..Program::default() };
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut scope = Scope { program: &program, state: &state, values: &mut values };
    scope.set_named("a", Some("x".to_owned()));
    let twice =
        Text::from_parts([TextPart::Variable(Variable(0)), TextPart::Variable(Variable(0))]);
    for _ in 0..26 {
        let doubled = twice.render(&mut scope).into_owned();
        scope.set_named("b", Some(doubled.clone()));
        scope.values.set(Variable(0), Some(doubled));
    }
    assert_eq!(scope.named("a").map(str::len), Some(16 << 20));
    assert_eq!(scope.named("b").map(str::len), Some(16 << 20));
    let many = Text::from_parts((0..10_000).map(|_| TextPart::Variable(Variable(0))));
    assert_eq!(many.render(&mut scope).len(), 64 << 20);
}
