//! Escapes of HTML 4, XML and Java, as Apache Commons Text has them.

use std::fmt::Write;

/// Names of the characters from 160 to 255.
const LATIN: &str = "\
    nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg \
    plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 \
    iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml \
    Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
    Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil \
    egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde \
    ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

/// Code points in hexadecimal and names of the other entities.
const OTHERS: &str = "\
    152:OElig 153:oelig 160:Scaron 161:scaron 178:Yuml 192:fnof 2c6:circ 2dc:tilde 391:Alpha \
    392:Beta 393:Gamma 394:Delta 395:Epsilon 396:Zeta 397:Eta 398:Theta 399:Iota 39a:Kappa \
    39b:Lambda 39c:Mu 39d:Nu 39e:Xi 39f:Omicron 3a0:Pi 3a1:Rho 3a3:Sigma 3a4:Tau 3a5:Upsilon \
    3a6:Phi 3a7:Chi 3a8:Psi 3a9:Omega 3b1:alpha 3b2:beta 3b3:gamma 3b4:delta 3b5:epsilon \
    3b6:zeta 3b7:eta 3b8:theta 3b9:iota 3ba:kappa 3bb:lambda 3bc:mu 3bd:nu 3be:xi \
    3bf:omicron 3c0:pi 3c1:rho 3c2:sigmaf 3c3:sigma 3c4:tau 3c5:upsilon 3c6:phi 3c7:chi \
    3c8:psi 3c9:omega 3d1:thetasym 3d2:upsih 3d6:piv 2002:ensp 2003:emsp 2009:thinsp \
    200c:zwnj 200d:zwj 200e:lrm 200f:rlm 2013:ndash 2014:mdash 2018:lsquo 2019:rsquo \
    201a:sbquo 201c:ldquo 201d:rdquo 201e:bdquo 2020:dagger 2021:Dagger 2022:bull \
    2026:hellip 2030:permil 2032:prime 2033:Prime 2039:lsaquo 203a:rsaquo 203e:oline \
    2044:frasl 20ac:euro 2111:image 2118:weierp 211c:real 2122:trade 2135:alefsym 2190:larr \
    2191:uarr 2192:rarr 2193:darr 2194:harr 21b5:crarr 21d0:lArr 21d1:uArr 21d2:rArr \
    21d3:dArr 21d4:hArr 2200:forall 2202:part 2203:exist 2205:empty 2207:nabla 2208:isin \
    2209:notin 220b:ni 220f:prod 2211:sum 2212:minus 2217:lowast 221a:radic 221d:prop \
    221e:infin 2220:ang 2227:and 2228:or 2229:cap 222a:cup 222b:int 2234:there4 223c:sim \
    2245:cong 2248:asymp 2260:ne 2261:equiv 2264:le 2265:ge 2282:sub 2283:sup 2284:nsub \
    2286:sube 2287:supe 2295:oplus 2297:otimes 22a5:perp 22c5:sdot 2308:lceil 2309:rceil \
    230a:lfloor 230b:rfloor 2329:lang 232a:rang 25ca:loz 2660:spades 2663:clubs 2665:hearts \
    2666:diams";

/// The entities with a name, except those of the four characters of markup.
fn entities() -> impl Iterator<Item = (char, &'static str)> {
    let latin = (160..).zip(LATIN.split(' '));
    let others = OTHERS.split(' ').filter_map(|entry| entry.split_once(':'));
    let others =
        others.filter_map(|(code, name)| Some((u32::from_str_radix(code, 16).ok()?, name)));
    latin.chain(others).filter_map(|(code, name)| Some((char::from_u32(code)?, name)))
}

/// Escapes for HTML 4.
pub(crate) fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let name = match character {
            '&' => Some("amp"),
            '<' => Some("lt"),
            '>' => Some("gt"),
            '"' => Some("quot"),
            character if character.is_ascii() => None,
            character => entities().find(|(known, _)| *known == character).map(|(_, name)| name),
        };
        match name {
            Some(name) => out.extend(["&", name, ";"]),
            None => out.push(character),
        }
    }
    out
}

/// Reverses [`escape_html`], and numeric references.
pub(crate) fn unescape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        // Names have at most 8 characters, numbers a few more.
        let end = behind.bytes().take(12).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(behind.get(..end)?)?, &behind[end + 1..]))) {
            Some((character, behind)) => {
                out.push(character);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?);
    }
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        name => entities().find(|(_, known)| *known == name).map(|(character, _)| character),
    }
}

/// Escapes for XML 1.0; characters that XML does not have are left out.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "&#{};", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out
}

/// Resolves the escapes of Java: `\n`, `\u0041`, `\101`.
pub(crate) fn unescape_java(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut buffer = [0; 2];
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut buffer));
            continue;
        }
        let Some(escaped) = rest.chars().next() else { break };
        let octal = rest.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        if octal > 0 {
            let octal = if octal == 3 && rest.as_bytes()[0] > b'3' { 2 } else { octal };
            units.extend(u16::from_str_radix(&rest[..octal], 8).ok());
            rest = &rest[octal..];
            continue;
        }
        rest = &rest[escaped.len_utf8()..];
        let hexadecimal = rest.trim_start_matches('u');
        match (escaped, hexadecimal.get(..4).and_then(|d| u16::from_str_radix(d, 16).ok())) {
            ('u', Some(unit)) => {
                units.push(unit);
                rest = &hexadecimal[4..];
            }
            _ => {
                let character = match escaped {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    escaped => escaped,
                };
                units.extend_from_slice(character.encode_utf16(&mut buffer));
            }
        }
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_unescaped() {
        let text = "<a href=\"x\">é € &amp; 'q'</a>";
        let escaped = escape_html(text);
        assert_eq!(escaped, "&lt;a href=&quot;x&quot;&gt;&eacute; &euro; &amp;amp; 'q'&lt;/a&gt;");
        assert_eq!(unescape_html(&escaped), text);
        assert_eq!(unescape_html("&#65;&#x42; &none; & &yuml;&nbsp;"), "AB &none; & ÿ\u{a0}");
        assert_eq!(
            escape_xml("<a b='\"'>&\u{1}é\u{80}"),
            "&lt;a b=&apos;&quot;&apos;&gt;&amp;é&#128;"
        );
        assert_eq!(unescape_java(r"a\tb\\\u00e9\101\'\ud83d\ude00"), "a\tb\\éA'😀");
    }
}
