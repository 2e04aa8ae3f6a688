//! XML in place of JSON and the other way round.

use super::assert_problem;
use crate::harness::{self, Server, Upstream, Weir};
use serde_json::json;

const SOAP: &str = "{soap: \"http://schemas.xmlsoap.org/soap/envelope/\", o: \"urn:orders\"}";

/// A SOAP service in front of this upstream, which speaks JSON; and what else maps XML.
fn server(upstream: std::net::SocketAddr) -> Server {
    let call = "$['soap:Envelope']['soap:Body']['o:getOrder']";
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{up: {{targets: [\"http://{upstream}\"]}}}}\n\
         apis:\n  api:\n    base: /\n    limits: {{body: 64KiB}}\n    routes:\n      \
         - post: /soap\n        request: {{from: xml, xml: {{namespaces: {SOAP}, values: typed, arrays: \"o:item\"}}, \
           map: {{id: \"{call}['o:id']\", items: \"{call}['o:item']\", by: \"{call}['@by']\"}}}}\n        proxy: up\n        \
           response: {{as: xml, xml: {{root: \"soap:Envelope\", namespaces: {SOAP}, content_type: text/xml; charset=utf-8}}, \
           map: {{\"soap:Body\": {{\"o:order\": {{\"@id\": $.id, \"o:item\": $.items}}}}}}}}\n      \
         - {{post: /either, request: {{from: [json, xml], map: $, as: xml, xml: {{root: got}}}}, proxy: up}}\n      \
         - {{get: \"/answer/*\", response: {{from: [xml, json], map: $, as: [json, xml]}}, proxy: up}}\n      \
         - {{post: /reply, reply: {{from: xml, map: $, as: [json, xml]}}}}\n"
    ))
    .start()
}

fn post(server: &Server, path: &str, content_type: &str, body: &[u8]) -> harness::Response {
    let mut client = server.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(body);
    client.response()
}

#[test]
fn a_soap_client_is_served_by_an_upstream_that_speaks_json() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    // Prefixes are the client's affair.
    let body = "<?xml version=\"1.0\"?>\n<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\">\
        <S:Header/><S:Body><getOrder xmlns=\"urn:orders\" by=\"m&amp;e\"><id>17</id><item>a</item></getOrder>\
        </S:Body></S:Envelope>";
    let response = post(&server, "/soap", "text/xml; charset=utf-8", body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("text/xml; charset=utf-8"));
    assert_eq!(
        response.text(),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:o=\"urn:orders\">\
         <soap:Body><o:order id=\"17\"><o:item>a</o:item></o:order></soap:Body></soap:Envelope>"
    );
    assert_eq!(response.header("content-length"), Some(&*response.body.len().to_string()));
}

#[test]
fn what_goes_on_is_what_the_route_says_in_the_format_that_it_says() {
    let up = Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let server = server(up.addr);
    let xml = b"<?xml version='1.0' encoding='iso-8859-1'?><a n='1'>\xe9</a>";
    assert_eq!(post(&server, "/either", "application/xml", xml).status, 204);
    let body = r#"{"a":{"@n":"1","b":[1,2]}}"#;
    assert_eq!(post(&server, "/either", "application/json", body.as_bytes()).status, 204);
    for head in up.heads() {
        assert!(head.to_ascii_lowercase().contains("content-type: application/xml\r\n"), "{head}");
    }
    let echo = harness::echo(&[]);
    let server = self::server(echo.listen[0]);
    let response = post(&server, "/either", "application/xml", xml);
    assert!(response.text().ends_with("\n<got><a n=\"1\">é</a></got>"), "{}", response.text());
    let response = post(&server, "/either", "application/json", body.as_bytes());
    assert!(response.text().ends_with("\n<got><a n=\"1\"><b>1</b><b>2</b></a></got>"));
}

#[test]
fn what_cannot_be_read_is_refused_and_nobody_else_hears_of_it() {
    let silent = Upstream::by_hand();
    let server = server(silent.addr);
    for (body, why) in [
        ("<a", "unclosed markup"),
        ("<a><b></a>", "tags at byte 6"),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>", "DOCTYPE"),
        ("<a>&x;</a>", "entity `x`"),
        ("{\"a\":1}", "text outside"),
        ("", "no root element"),
        (&"<a>".repeat(2000), "deep"),
    ] {
        for path in ["/soap", "/either", "/reply"] {
            let refused = post(&server, path, "text/xml", body.as_bytes());
            assert_problem(&refused, 400, "malformed-xml", body);
            let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
            assert!(detail.contains(why), "{detail}, not {why}");
        }
    }
    let refused = post(&server, "/soap", "application/json", b"{}");
    assert_problem(&refused, 415, "unsupported-media-type", "JSON");
    assert_eq!(refused.json()["detail"], "the body must be application/xml");
    assert_problem(
        &post(&server, "/soap", "text/xml", b"\xff\xfe<"),
        400,
        "malformed-xml",
        "UTF-16",
    );
    assert_eq!(silent.connections(), 0);
}

#[test]
fn responses_are_read_by_their_type_and_written_as_the_client_accepts() {
    let response = |content_type: &str, body: &str| {
        Upstream::responding(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nETag: \"x\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let xml = response("application/atom+xml", "<a><b>1</b><b>2</b></a>");
    let server = server(xml.addr);
    let get =
        |accept: &str| server.connect().request("GET", "/answer/x", &[("accept", accept)], "");
    let json = get("application/json");
    assert_eq!(json.json(), json!({"a": {"b": ["1", "2"]}}));
    assert_eq!(
        (json.header("content-type"), json.header("etag")),
        (Some("application/json"), None)
    );
    assert_eq!(json.header("vary"), Some("accept"));
    let written = get("application/xml;q=1, application/json;q=0.5");
    assert!(written.text().ends_with("<response><a><b>1</b><b>2</b></a></response>"));
    assert_eq!(get("image/png").header("content-type"), Some("application/json"));

    let broken = response("text/xml", "<a><b></a>");
    let server = self::server(broken.addr);
    assert_problem(&server.connect().get("/answer/x"), 502, "upstream-unmappable", "broken XML");
    let other = response("text/html", "<a><b></a>");
    let server = self::server(other.addr);
    assert_eq!(server.connect().get("/answer/x").text(), "<a><b></a>");
}

#[test]
fn a_reply_reads_xml_too() {
    let silent = Upstream::by_hand();
    let server = server(silent.addr);
    let response = post(&server, "/reply", "application/xml", b"<a><b/></a>");
    assert_eq!(response.json(), json!({"a": {"b": null}}));
}

/// A SOAP service of weir's: what clients read of it.
const WSDL: &str = r#"<?xml version="1.0"?>
<definitions name="Orders" targetNamespace="urn:orders" xmlns="http://schemas.xmlsoap.org/wsdl/"
  xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:o="urn:orders" xmlns:x="http://www.w3.org/2001/XMLSchema">
  <types><x:schema targetNamespace="urn:orders" elementFormDefault="qualified">
    <x:element name="getOrder"><x:complexType><x:sequence>
      <x:element name="id" type="x:int"/><x:element name="item" type="x:string" maxOccurs="unbounded"/>
    </x:sequence><x:attribute name="by" type="x:string"/></x:complexType></x:element>
    <x:element name="order"><x:complexType><x:sequence>
      <x:element name="item" type="x:string" maxOccurs="unbounded"/>
    </x:sequence><x:attribute name="id" type="x:int"/></x:complexType></x:element>
  </x:schema></types>
  <message name="in"><part name="body" element="o:getOrder"/></message>
  <message name="out"><part name="body" element="o:order"/></message>
  <portType name="Orders"><operation name="getOrder"><input message="o:in"/><output message="o:out"/></operation></portType>
  <binding name="Orders" type="o:Orders"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <operation name="getOrder"><soap:operation soapAction="urn:orders#getOrder"/>
      <input><soap:body use="literal"/></input><output><soap:body use="literal"/></output></operation></binding>
  <service name="Orders"><port name="Orders" binding="o:Orders"><soap:address location="URL"/></port></service>
</definitions>"#;

#[test]
fn a_real_soap_client_is_served() {
    let Some(python) = harness::python_package("zeep==4.3.3", "bin/python") else { return };
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    let wsdl = server.dir().join("orders.wsdl");
    std::fs::write(&wsdl, WSDL.replace("URL", &server.url("/soap"))).expect("the WSDL");
    let program = "import sys, zeep\n\
        order = zeep.Client(sys.argv[1]).service.getOrder(id=17, item=['a', 'é & <b>'], by='me')\n\
        assert (order.id, order.item) == (17, ['a', 'é & <b>']), order\n";
    let mut command = std::process::Command::new("timeout");
    let output = command.arg("120").arg(python).args(["-c", program]).arg(&wsdl).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
