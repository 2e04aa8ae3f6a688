//! Thread groups.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, enabled, is_true};
use crate::program::{
    Cookies, Executor, Group, OnError, Phase, PresetCookie, Text, TextPart, Users, UsersAtStart,
};
use std::net::IpAddr;
use std::time::Duration;

/// Thread groups of JMeter whose threads start evenly.
const CLASSIC: [&str; 3] = ["ThreadGroup", "SetupThreadGroup", "PostThreadGroup"];

/// Whether the element is a thread group of any kind.
pub(super) fn is_group(element: &Element) -> bool {
    element.class.ends_with("ThreadGroup")
}

/// A scheduler without an end.
const NO_DURATION: &str = "`ThreadGroup.scheduler` is set and `ThreadGroup.duration` is no positive number of seconds: \
                           JMeter stops the test";

impl Translation<'_> {
    /// Translates a thread group. `siblings` are the elements of the plan that apply to the group.
    pub(super) fn group<'e>(&mut self, element: &'e Element, siblings: &[&'e Element]) {
        let phase = match element.class.as_str() {
            "SetupThreadGroup" => Phase::Setup,
            "PostThreadGroup" => Phase::Teardown,
            _ => Phase::Main,
        };
        let is_classic = CLASSIC.contains(&element.class.as_str());
        let executor = match is_classic {
            true => self.users(element),
            false => self.special_group(element),
        };
        let Some(executor) = executor else { return };
        let delay = match is_classic && self.switch(element, "ThreadGroup.scheduler", false) {
            true => self.delay(element),
            false => Duration::ZERO,
        };
        let on_error = match element.text("ThreadGroup.on_sample_error") {
            "" | "continue" => OnError::Continue,
            "startnextloop" => OnError::NextIteration,
            "stopthread" => OnError::StopUser,
            "stoptest" => OnError::StopRun,
            "stoptestnow" => OnError::StopNow,
            other => {
                let message = format!("`ThreadGroup.on_sample_error` is invalid: `{other}`");
                self.invalid(element, &message);
                OnError::Continue
            }
        };
        // Elements of the plan apply after those of the group.
        let scope = Scope::default().with(element.children.iter().chain(siblings.iter().copied()));
        let steps = self.steps(element, &scope);
        let name = self.fixed_text(element, &element.name, "testname");
        let index = self.index(&name);
        let cookies = self.cookies(element, siblings);
        let same_user = self.switch(element, "ThreadGroup.same_user_on_next_iteration", true);
        self.variables.program.groups.push(Group {
            name,
            phase,
            executor,
            delay,
            steps,
            on_error,
            index,
            cookies,
            new_user: !same_user,
            grace: None,
        });
    }

    fn delay(&mut self, element: &Element) -> Duration {
        let delay = self.number(element, "ThreadGroup.delay", 0);
        let delay = u64::try_from(delay)
            .map_err(|_| format!("`ThreadGroup.delay` is {delay}: JMeter stops the test"));
        Duration::from_secs(self.valid(element, delay).unwrap_or(0))
    }

    /// The users of a classic thread group. Numbers that change are evaluated when it starts.
    fn users(&mut self, element: &Element) -> Option<Executor> {
        let scheduled = self.switch(element, "ThreadGroup.scheduler", false);
        let users = self.property(element, "ThreadGroup.num_threads");
        let ramp = self.property(element, "ThreadGroup.ramp_time");
        let duration = self.property(element, "ThreadGroup.duration");
        let duration = scheduled.then_some(duration);
        let (loops, forever) = self.loops(element);
        let texts = [Some(&users), Some(&ramp), duration.as_ref(), Some(&loops)];
        if texts.into_iter().flatten().any(|text| text.as_fixed().is_none()) {
            let iterations = if forever { Text::fixed("-1") } else { loops };
            let texts = UsersAtStart { users, ramp, iterations, duration };
            return Some(Executor::UsersAtStart(Box::new(texts)));
        }
        let users = self.number(element, "ThreadGroup.num_threads", 1);
        let message = "`ThreadGroup.num_threads` is not a number of threads";
        let users = self.valid(element, u32::try_from(users).map_err(|_| message))?;
        let ramp = self.seconds(element, "ThreadGroup.ramp_time");
        let duration = scheduled.then(|| self.seconds(element, "ThreadGroup.duration"));
        if duration.is_some_and(|duration| duration.is_zero()) {
            self.invalid(element, NO_DURATION);
        }
        let iterations = self.iterations(element);
        Some(Executor::Users(Users { users, ramp, iterations, duration }))
    }

    /// The text of the number of iterations, and whether the group starts again after them.
    fn loops(&mut self, element: &Element) -> (Text, bool) {
        let Some(controller) = element.properties.element("ThreadGroup.main_controller") else {
            return (Text::fixed("1"), false);
        };
        let loops = self.text(element, controller.text("LoopController.loops"));
        let forever = self.fixed_text(
            element,
            controller.text("LoopController.continue_forever"),
            "LoopController.continue_forever",
        );
        (loops, is_true(&forever, true))
    }

    /// Iterations of each user; `None` is endless.
    pub(super) fn iterations(&mut self, element: &Element) -> Option<u64> {
        let name = "LoopController.loops";
        let (loops, forever) = self.loops(element);
        let Some(loops) = loops.as_fixed() else {
            self.unsupported(element, &format!("`{name}` changes while the plan runs"));
            return None;
        };
        // JMeter reads an invalid number as 0; a group without iterations would be a silent
        // mistake.
        let number = loops.trim().parse::<i64>();
        let number = number.map_err(|_| format!("`{name}` is not an integer: `{loops}`"));
        let number = u64::try_from(self.valid(element, number).unwrap_or(0)).ok();
        number.filter(|number| !forever || *number == 0)
    }

    /// Cookies of a manager for the next group.
    fn preset_cookies(&mut self, manager: &Element) {
        for cookie in manager.properties.elements("CookieManager.cookies") {
            let domain = self.text(manager, cookie.text("Cookie.domain").trim_start_matches('.'));
            let path = match cookie.text("Cookie.path") {
                "" => "/",
                path => path,
            };
            let path = self.text(manager, path);
            let (name, value) = (cookie.text("TestElement.name"), cookie.text("Cookie.value"));
            let (name, value) = (self.text(manager, name), self.text(manager, value));
            let is_name = domain.as_fixed().is_none_or(|host| host.parse::<IpAddr>().is_err());
            let mut field: Vec<TextPart> = name.into_iter().chain(["=".into()]).collect();
            field.extend(value.into_iter().chain(["; Path=".into()]).chain(path));
            if is_name && domain.as_fixed() != Some("localhost") {
                field.push("; Domain=".into());
                field.extend(domain.clone());
            }
            if cookie.text("Cookie.secure") == "true" {
                field.push("; Secure".into());
            }
            let url = ["https://".into()].into_iter().chain(domain).chain(["/".into()]);
            let group = self.variables.program.groups.len();
            self.variables.program.preset_cookies.push(PresetCookie {
                group,
                url: Text::from_parts(url),
                field: Text::from_parts(field),
            });
        }
    }

    /// Setting of the cookie manager nearest to the group.
    fn cookies(&mut self, group: &Element, siblings: &[&Element]) -> Cookies {
        let of_plan = siblings.iter().copied().filter(|sibling| sibling.enabled);
        let mut all = enabled(&group.children).into_iter().chain(of_plan);
        let Some(manager) = all.find(|element| element.class == "CookieManager") else {
            return Cookies::Ignored;
        };
        let policy = self.fixed(manager, "CookieManager.policy");
        match policy.as_str() {
            "ignorecookies" | "ignoreCookies" => return Cookies::Ignored,
            "" | "standard" | "standard-strict" | "default" | "compatibility" | "best-match"
            | "netscape" => {}
            policy => {
                let message = format!("the Lab does not support the cookie policy `{policy}`");
                self.unsupported(manager, &message);
            }
        }
        self.preset_cookies(manager);
        let same_user = self.switch(group, "ThreadGroup.same_user_on_next_iteration", true);
        let by_group = self.switch(manager, "CookieManager.controlledByThreadGroup", false);
        let each_iteration = self.switch(manager, "CookieManager.clearEachIteration", false);
        if (by_group && !same_user) || (!by_group && each_iteration) {
            Cookies::KeptForIteration
        } else {
            Cookies::Kept
        }
    }
}
