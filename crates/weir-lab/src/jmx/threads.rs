//! Thread groups.

use super::control;
use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, Lookup as _, Property};
use crate::program::{Cookies, Executor, Group, OnError, Phase, Users};
use std::time::Duration;

/// Whether the element is a thread group of any kind.
pub(super) fn is_group(element: &Element) -> bool {
    element.class.ends_with("ThreadGroup")
}

/// Translates a thread group. `siblings` are the elements of the plan that apply to the group.
pub(super) fn group<'e>(
    translation: &mut Translation<'_>,
    element: &'e Element,
    siblings: &[&'e Element],
) {
    let phase = match element.class.as_str() {
        "ThreadGroup" => Phase::Main,
        "SetupThreadGroup" => Phase::Setup,
        "PostThreadGroup" => Phase::Teardown,
        _ => {
            return translation
                .unsupported(element, "the Lab does not support this kind of thread group");
        }
    };
    let users = translation.number(element, "ThreadGroup.num_threads", 1);
    let Ok(users) = u32::try_from(users) else {
        return translation
            .invalid(element, "`ThreadGroup.num_threads` is not a number of threads");
    };
    let ramp = translation.seconds(element, "ThreadGroup.ramp_time");
    let scheduled = translation.switch(element, "ThreadGroup.scheduler", false);
    let (duration, delay) = if scheduled {
        let duration = translation.seconds(element, "ThreadGroup.duration");
        let delay = translation.seconds(element, "ThreadGroup.delay");
        ((duration > Duration::ZERO).then_some(duration), delay)
    } else {
        (None, Duration::ZERO)
    };
    let iterations = iterations(translation, element);
    let on_error = match element.text("ThreadGroup.on_sample_error") {
        "" | "continue" => OnError::Continue,
        "startnextloop" => OnError::NextIteration,
        "stopthread" => OnError::StopUser,
        "stoptest" => OnError::StopRun,
        "stoptestnow" => OnError::StopNow,
        other => {
            let message = format!("`ThreadGroup.on_sample_error` is invalid: `{other}`");
            translation.invalid(element, &message);
            OnError::Continue
        }
    };
    // Elements of the plan apply after those of the group.
    let scope = Scope::default().with(element.children.iter().chain(siblings.iter().copied()));
    let steps = control::steps(translation, element, &scope);
    let name = translation.fixed_text(element, &element.name.clone(), "testname");
    let cookies = cookies(translation, element, siblings);
    let same_user = translation.switch(element, "ThreadGroup.same_user_on_next_iteration", true);
    translation.variables.program.groups.push(Group {
        name,
        phase,
        executor: Executor::Users(Users { users, ramp, iterations, duration }),
        delay,
        steps,
        on_error,
        cookies,
        new_user: !same_user,
    });
}

/// Iterations of each user; `None` is endless.
fn iterations(translation: &mut Translation<'_>, element: &Element) -> Option<u64> {
    let Some(Property::Element(controller)) = element.properties.get("ThreadGroup.main_controller")
    else {
        return Some(1);
    };
    let loops = controller.text("LoopController.loops").to_owned();
    let loops = translation.fixed_text(element, &loops, "LoopController.loops");
    match loops.trim().parse::<i64>() {
        Ok(loops) => u64::try_from(loops).ok(),
        // JMeter reads an invalid number as 0; a group without iterations would be a silent
        // mistake.
        Err(_) => {
            let message = format!("`LoopController.loops` is not an integer: `{loops}`");
            translation.invalid(element, &message);
            Some(0)
        }
    }
}

/// Setting of the cookie manager nearest to the group.
fn cookies(translation: &mut Translation<'_>, group: &Element, siblings: &[&Element]) -> Cookies {
    let mut found = None;
    super::translate::each(&group.children, &mut |element| {
        if element.class == "CookieManager" && found.is_none() {
            found = Some(element);
        }
    });
    let of_plan = siblings.iter().find(|e| e.enabled && e.class == "CookieManager").copied();
    let Some(manager) = found.or(of_plan) else { return Cookies::Ignored };
    if !manager.properties.items("CookieManager.cookies").is_empty() {
        translation.unsupported(manager, "the Lab does not support initial cookies");
    }
    let same_user = translation.switch(group, "ThreadGroup.same_user_on_next_iteration", true);
    let by_group = translation.switch(manager, "CookieManager.controlledByThreadGroup", false);
    let each_iteration = translation.switch(manager, "CookieManager.clearEachIteration", false);
    if (by_group && !same_user) || (!by_group && each_iteration) {
        Cookies::KeptForIteration
    } else {
        Cookies::Kept
    }
}
