"""The Helm chart: `python3 packaging/test/chart.py`. packaging/test/chart-tools installs helm and the schemas before.

Every file of packaging/helm/weir/ci is rendered. The objects are validated by the schemas of Kubernetes 1.29 and later
and of the Prometheus operator. The configurations are checked and served by the real binary in a folder that looks like
that of a pod; probes, reload and termination are those of the rendered pod.
"""

import contextlib
import copy
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import server  # noqa: E402 (the path must be set first)

ROOT = server.ROOT
CHART = ROOT / "packaging/helm/weir"
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weir-tools/chart"
HELM, KUBECONFORM = TOOLS / "bin/helm", TOOLS / "bin/kubeconform"
VALUES = {
    "default": None,
    **{path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*.yaml"))},
}
OPERATOR = ("ServiceMonitor", "PrometheusRule")
PODS = "test-weir"

sys.path.append(str(TOOLS / "python"))


def missing():
    """What chart-tools has not installed."""
    paths = (HELM, KUBECONFORM, TOOLS / "schemas", TOOLS / "python/yaml", TOOLS / "node_modules/typescript")
    return [str(path) for path in paths if not path.exists()]


def helm(*arguments, check=True, text=None):
    """Runs helm apart from the user's settings; returns the finished process."""
    with tempfile.TemporaryDirectory() as home:
        folders = {f"HELM_{name}_HOME": f"{home}/{name}" for name in ("CACHE", "CONFIG", "DATA")}
        env = {**os.environ, **folders, "KUBECONFIG": f"{home}/none"}
        command = [HELM, *map(str, arguments)]
        done = subprocess.run(command, env=env, input=text, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"helm {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
    return done


def values_of(name):
    return ["--values", VALUES[name]] if VALUES[name] else []


def render(name="default", *arguments, chart=CHART, values=None):
    """The objects of a values file, as YAML; `values` are set in addition."""
    more = ["--values", "-"] if values is not None else []
    text = None if values is None else json.dumps(values)
    command = ["template", "test", chart, "--namespace", "shop", *values_of(name), *more, *arguments]
    return helm(*command, text=text).stdout


def objects(text):
    import yaml

    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(found, kind, ending=""):
    return [one for one in found if one["kind"] == kind and one["metadata"]["name"].endswith(ending)]


def stateful_set(found):
    """That of weir: extra objects may have others."""
    return next(one for one in of_kind(found, "StatefulSet") if "checksum/restart" in annotations(one))


def annotations(workload):
    return workload["spec"]["template"]["metadata"].get("annotations", {})


def pod(found):
    return stateful_set(found)["spec"]["template"]["spec"]


def container(found):
    return next(one for one in pod(found)["containers"] if one["name"] == "weir")


def is_lab(one):
    return one["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "lab"


def lab_jobs(found):
    """The Job of the agents, and that of the run."""
    jobs = [one for one in of_kind(found, "Job") if is_lab(one)]
    agents = next(one for one in jobs if one["metadata"]["name"].endswith("-agent"))
    return agents, next(one for one in jobs if one is not agents)


def restart_hash(found):
    return annotations(stateful_set(found))["checksum/restart"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def project(folder, files):
    """Writes files as Kubernetes projects a ConfigMap or Secret: links to a folder, which another link selects."""
    folder.mkdir(parents=True, exist_ok=True)
    version = Path(tempfile.mkdtemp(prefix="..version-", dir=folder))
    version.chmod(0o755)
    for name, text in files.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_text(text, encoding="utf-8")
        first = Path(name).parts[0]
        if not (folder / first).is_symlink():
            (folder / first).symlink_to(f"..data/{first}")
    link = folder / "..data_tmp"
    link.symlink_to(version.name)
    old = (folder / "..data").resolve() if (folder / "..data").is_symlink() else None
    link.rename(folder / "..data")
    if old:
        shutil.rmtree(old)


def certificate(folder):
    """The Secret of a certificate: with its key, and the certificate of the authority that has signed it."""
    names = "subjectAltName=DNS:localhost,DNS:test-weir-admin.shop.svc"
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    Path(folder, "names").write_text(names, encoding="utf-8")
    for command in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"],
        [*new, "-subj", "/CN=weir", "-keyout", "tls.key", "-out", "tls.csr"],
        ["openssl", "x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "2"]
        + ["-CAcreateserial", "-extfile", "names", "-out", "tls.crt"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return {name: Path(folder, name).read_text("utf-8") for name in ("tls.crt", "tls.key", "ca.crt")}


class Node:
    """The files of a pod in a temporary folder, with all paths and ports of the configuration moved."""

    def __init__(self, found):
        self.folder = Path(tempfile.mkdtemp())
        self.found, self.ports, self.process = found, {}, None
        self.etc = self.folder / "etc/weir"
        try:
            for other in ("var/lib/weir", "srv/shop", "run/php"):
                (self.folder / other).mkdir(parents=True)
            self.secrets()
            self.configure(found)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.env = {**os.environ, **dict(self.environment())}

    def secrets(self):
        made = {one["metadata"]["name"]: one["stringData"] for one in of_kind(self.found, "Secret")}
        mounts = {mount["name"]: mount["mountPath"] for mount in container(self.found)["volumeMounts"]}
        pair = None
        for volume in pod(self.found)["volumes"]:
            if volume["name"] not in mounts:
                continue
            target = self.folder / mounts[volume["name"]].lstrip("/")
            if "secret" in volume or "projected" in volume:
                pair = pair or certificate(self.folder)
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                project(target, made.get(name, {"ca.crt": pair["ca.crt"], "password": "sesame"}))
            if "projected" in volume:
                items = [item for source in volume["projected"]["sources"] for item in source["secret"]["items"]]
                project(target, {item["path"]: pair[item["key"]] for item in items})

    def environment(self):
        made = {}
        for one in of_kind(self.found, "Secret"):
            made[one["metadata"]["name"]] = one["stringData"]
        for variable in container(self.found)["env"]:
            if "value" in variable:
                port = re.fullmatch(r"(https://localhost:)(\d+)", variable["value"])
                yield variable["name"], f"{port[1]}{self.ports[int(port[2])]}" if port else variable["value"]
            elif "fieldRef" in variable["valueFrom"]:
                yield variable["name"], "field"
            else:
                key = variable["valueFrom"]["secretKeyRef"]
                yield variable["name"], made.get(key["name"], {}).get(key["key"], "existing")

    def configure(self, found):
        """Writes, or replaces, the files of the ConfigMap."""
        volume = next(one for one in pod(found)["volumes"] if one["name"] == "config")
        maps = of_kind(found, "ConfigMap")
        data = dict(next(one for one in maps if one["metadata"]["name"] == volume["configMap"]["name"])["data"])
        data["weir.yaml"] = self.moved(data["weir.yaml"])
        project(self.etc, data)

    def moved(self, text):
        """Ports of 127.0.0.1 that are free, and paths in the temporary folder."""

        def address(match):
            port = self.ports.setdefault(int(match.group(2)), None) or free_port()
            self.ports[int(match.group(2))] = port
            return f"addr: 127.0.0.1:{port}"

        text = re.sub(r"""addr: ['"]?(0\.0\.0\.0|\[::\]):(\d+)['"]?""", address, text)
        return re.sub(r"(?<![\w.])/(run/secrets|run/php|var/lib/weir|srv/shop)\b", rf"{self.folder}/\1", text)

    def weir(self, *arguments):
        return subprocess.run(
            [server.binary(), *arguments], cwd=self.etc, env=self.env, capture_output=True, text=True, timeout=60
        )

    def start(self, program=None, **options):
        """Starts weir by the arguments of the pod; `options` are those of Popen."""
        arguments = [self.moved_path(one) for one in container(self.found)["args"]]
        self.errors = open(self.folder / "stderr", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [program or server.binary(), *arguments, "--json"],
            **options,
            cwd=self.etc,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.event("ready")

    def moved_path(self, argument):
        return str(self.etc) if argument == "/etc/weir" else argument

    def event(self, name):
        """Waits for an event and returns it."""
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == name:
                return event
        self.process.wait()
        raise AssertionError(f"no event {name}:\n{self.log()}")

    def log(self):
        self.errors.flush()
        return (self.folder / "stderr").read_text(encoding="utf-8")

    def get(self, port, path, scheme="http", **headers):
        """Status and body of a request to a port of the pod."""
        if scheme.lower() == "https":
            # Like the kubelet, which does not verify certificates.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection("127.0.0.1", self.ports[port], timeout=30, context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def probe(self, kind):
        """Status of a probe, as the kubelet sends it."""
        probe = container(self.found)[f"{kind}Probe"]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in container(self.found)["ports"]}
        headers = {one["name"]: one["value"] for one in probe["httpHeaders"]}
        return self.get(ports[probe["port"]], probe["path"], probe["scheme"], **headers)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def eventually(condition, seconds=30):
    """Whether the condition becomes true; the time is a bound for failures only."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Rendered(unittest.TestCase):
    """Objects, and their schemas."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.texts = {name: render(name) for name in VALUES}
        cls.objects = {name: objects(text) for name, text in cls.texts.items()}

    def test_lint(self):
        for name in VALUES:
            with self.subTest(name):
                done = helm("lint", "--strict", CHART, *values_of(name))
                self.assertIn("0 chart(s) failed", done.stdout)

    def conform(self, version, files):
        location = TOOLS / "schemas" / version / "{{ .ResourceKind }}{{ .KindSuffix }}.json"
        command = [KUBECONFORM, "-strict", "-summary", "-output", "json", "-n", "2", "-schema-location", location]
        done = subprocess.run([*command, "-skip", ",".join(OPERATOR), *files], capture_output=True, text=True)
        return json.loads(done.stdout)

    def test_kubernetes_schemas(self):
        versions = sorted(path.name for path in (TOOLS / "schemas").iterdir())
        self.assertIn("v1.29.0", versions)
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for name, text in self.texts.items():
                files.append(Path(folder, f"{name}.yaml"))
                files[-1].write_text(text, encoding="utf-8")
            wrong = Path(folder, "wrong.yaml")
            wrong.write_text(self.texts["default"].replace("serviceName:", "servicename:"), encoding="utf-8")
            expected = sum(one["kind"] not in OPERATOR for found in self.objects.values() for one in found)
            for version in versions:
                with self.subTest(version):
                    report = self.conform(version, files)
                    self.assertEqual(report["resources"], [])
                    self.assertEqual(report["summary"]["valid"], expected)
                    # The schemas find an unknown key.
                    report = self.conform(version, [wrong])
                    self.assertIn("servicename", json.dumps(report["resources"]))

    def test_operator_schemas(self):
        """Values by the schemas of the CRDs, unknown keys by the types that are generated from them."""
        found = [one for name in VALUES for kind in OPERATOR for one in of_kind(self.objects[name], kind)]
        self.assertEqual({one["kind"] for one in found}, set(OPERATOR))
        self.assertEqual(self.operator_problems(found), "")
        for path, value, problem in (
            (("endpoints", 0, "interval"), "15 seconds", "must match pattern"),
            (("endpoints", 0, "schema"), "https", '"schema"\' does not exist'),
        ):
            wrong = copy.deepcopy(next(one for one in found if one["kind"] == "ServiceMonitor"))
            at = wrong["spec"]
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            self.assertIn(problem, self.operator_problems([wrong]))

    def operator_problems(self, found):
        module = "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "node_modules").symlink_to(TOOLS / "node_modules")
            values = f'import {{ {", ".join(OPERATOR)} }} from "{module}";\n'
            values += "const check = (one) => { try { one.validate(); } catch (error) { console.log(`${error}`); } };\n"
            values += "".join(f"check(new {one['kind']}({json.dumps(one)}));\n" for one in found)
            types = f'import type {{ {", ".join(f"I{kind}" for kind in OPERATOR)} }} from "{module}";\n'
            types += "".join(f"export const x{n}: I{one['kind']} = {json.dumps(one)};\n" for n, one in enumerate(found))
            Path(folder, "values.mjs").write_text(values, encoding="utf-8")
            Path(folder, "types.mts").write_text(types, encoding="utf-8")
            # Without it, the compiler leaves a cache outside of the folder.
            env = {**os.environ, "NODE_DISABLE_COMPILE_CACHE": "1"}
            values = subprocess.run(["node", "values.mjs"], cwd=folder, env=env, capture_output=True, text=True)
            options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
            types = subprocess.run(
                ["node", "node_modules/typescript/bin/tsc", *options, "types.mts"],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
            )
            return values.stdout + values.stderr + types.stdout + types.stderr

    def test_rules_are_those_of_the_repository(self):
        import yaml

        rules = {one["metadata"]["name"]: one["spec"] for one in of_kind(self.objects["monitoring"], "PrometheusRule")}
        for name in ("recording", "alerts"):
            text = (ROOT / f"packaging/prometheus/weir-{name}.yaml").read_text(encoding="utf-8")
            expected = yaml.safe_load(text.replace("vector(0.999)", "vector(0.9995)"))
            self.assertEqual(rules[f"{PODS}-{name}"], expected)
        self.assertIn("vector(0.9995)", json.dumps(rules), "the objective was not replaced")

    def test_dashboards_are_those_of_the_repository(self):
        maps = [
            one
            for one in of_kind(self.objects["monitoring"], "ConfigMap")
            if "grafana_dashboard" in one["metadata"]["labels"]
        ]
        found = {name: text for one in maps for name, text in one["data"].items()}
        expected = {path.name: path.read_text("utf-8") for path in (ROOT / "packaging/grafana").glob("*.json")}
        self.assertEqual(
            {name: text.rstrip() for name, text in found.items()}, {n: t.rstrip() for n, t in expected.items()}
        )

    def test_names_and_labels_belong_together(self):
        for name, found in self.objects.items():
            with self.subTest(name):
                spec = stateful_set(found)["spec"]
                labels = spec["template"]["metadata"]["labels"].items()
                self.assertLessEqual(spec["selector"]["matchLabels"].items(), labels)
                # Extra objects have others.
                chart = [one for one in found if "helm.sh/chart" in one["metadata"].get("labels", {})]
                own = [one for one in chart if not is_lab(one)]
                services = of_kind(own, "Service")
                self.assertIn(spec["serviceName"], [one["metadata"]["name"] for one in services])
                ports = {one["name"] for one in container(found)["ports"]}
                for service in services:
                    self.assertLessEqual(service["spec"]["selector"].items(), labels)
                    self.assertLessEqual({one["targetPort"] for one in service["spec"]["ports"]}, ports)
                for one in of_kind(own, "NetworkPolicy"):
                    self.assertLessEqual(one["spec"]["podSelector"]["matchLabels"].items(), labels)
                    self.assertLessEqual({p["port"] for rule in one["spec"]["ingress"] for p in rule["ports"]}, ports)
                for one in of_kind(found, "ServiceMonitor"):
                    selector = one["spec"]["selector"]["matchLabels"].items()
                    chosen = [s for s in services if selector <= s["metadata"]["labels"].items()]
                    self.assertEqual(
                        [s["metadata"]["name"] for s in chosen], [f"{stateful_set(found)['metadata']['name']}-admin"]
                    )
                volumes = {one["name"] for one in pod(found)["volumes"]}
                volumes |= {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", [])}
                mounts = [
                    m
                    for c in pod(found)["containers"] + pod(found).get("initContainers", [])
                    for m in c["volumeMounts"]
                ]
                self.assertLessEqual({mount["name"] for mount in mounts}, volumes)
                names = [(one["kind"], one["metadata"]["name"]) for one in found]
                self.assertEqual(len(names), len(set(names)))

    def test_names_fit(self):
        """The longest name of a release: names of Services and labels have at most 63 characters."""
        longest = "a" * 53
        found = objects(helm("template", longest, CHART, *values_of("secrets")).stdout)
        # A label of pods is the name of the StatefulSet with a hash.
        self.assertLessEqual(len(stateful_set(found)["metadata"]["name"]) + 11, 63)
        for one in of_kind(found, "Service"):
            self.assertLessEqual(len(one["metadata"]["name"]), 63)
        for one in found:
            for label in one["metadata"]["labels"].values():
                self.assertLessEqual(len(label), 63)

    def test_admin_is_for_the_listed_peers_only(self):
        def peers(name):
            rules = of_kind(self.objects[name], "NetworkPolicy")[0]["spec"]["ingress"]
            return [rule.get("from") for rule in rules if {"port": "admin", "protocol": "TCP"} in rule["ports"]]

        self.assertEqual(peers("default"), [[{"podSelector": {}}]])
        self.assertEqual(peers("replicas"), [])
        self.assertEqual(len(peers("monitoring")[0]), 1)

    def test_pod_security_standard_restricted(self):
        """https://kubernetes.io/docs/concepts/security/pod-security-standards/, and a read-only root file system."""
        allowed = {
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        }
        for name, found in self.objects.items():
            with self.subTest(name):
                spec = pod(found)
                self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
                self.assertGreater(spec["securityContext"]["runAsUser"], 0)
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertEqual(spec["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch")
                self.assertIs(spec["automountServiceAccountToken"], False)
                self.assertIs(spec["enableServiceLinks"], False)
                for key in ("hostNetwork", "hostPID", "hostIPC"):
                    self.assertNotIn(key, spec)
                for one in spec["containers"] + spec.get("initContainers", []):
                    context = one["securityContext"]
                    self.assertIs(context["allowPrivilegeEscalation"], False)
                    self.assertIs(context["readOnlyRootFilesystem"], True)
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                    self.assertTrue(all("hostPort" not in port for port in one.get("ports", [])))
                for volume in spec["volumes"]:
                    self.assertLessEqual(set(volume) - {"name"}, allowed)
                self.assertIn("memory", container(found)["resources"]["limits"])
                self.assertLessEqual({"cpu", "memory"}, set(container(found)["resources"]["requests"]))

    def test_the_job_checks_what_is_installed(self):
        """The same configuration, files and variables as the pods have."""
        jobs = {name: of_kind(found, "Job", "-check") for name, found in self.objects.items()}
        self.assertEqual({name for name, found in jobs.items() if found}, {"secrets", "tls", "pools"})
        for name, job in ((name, found[0]) for name, found in jobs.items() if found):
            with self.subTest(name):
                found = self.objects[name]
                template = job["spec"]["template"]
                one, weir = template["spec"]["containers"][0], container(found)
                self.assertEqual((one["command"], one["args"]), (["/usr/bin/weir"], ["check", "/etc/weir"]))
                for key in ("image", "workingDir", "volumeMounts", "securityContext"):
                    self.assertEqual(one[key], weir[key])
                self.assertEqual([v["name"] for v in one["env"]], [v["name"] for v in weir["env"]])
                self.assertEqual(template["spec"]["securityContext"], pod(found)["securityContext"])
                maps = {m["metadata"]["name"]: m["data"] for m in of_kind(found, "ConfigMap")}
                self.assertEqual(maps[f"{PODS}-check"], maps[PODS])
                for copied in (f"{PODS}-check", *(f"{PODS}-check-{s}" for s in ("env", "made") if name == "secrets")):
                    made = next(m for m in found if m["metadata"]["name"] == copied and m["kind"] != "Job")
                    self.assertIn("pre-upgrade", made["metadata"]["annotations"]["helm.sh/hook"])
                volumes = {v["name"] for v in template["spec"]["volumes"]}
                self.assertLessEqual({mount["name"] for mount in one["volumeMounts"]}, volumes)
                for service in of_kind(found, "Service"):
                    selector = service["spec"]["selector"].items()
                    self.assertFalse(selector <= template["metadata"]["labels"].items())

    def test_created_secrets(self):
        made = {one["metadata"]["name"]: one["stringData"] for one in of_kind(self.objects["secrets"], "Secret")}
        # The Job that checks the configuration runs before the Secrets of the release exist: it has copies.
        self.assertEqual(set(made), {f"{PODS}{job}-{one}" for job in ("", "-check") for one in ("env", "made")})
        self.assertEqual(made[f"{PODS}-env"], {"OTHER_TOKEN": "a: b # c"})
        self.assertEqual(list(made[f"{PODS}-made"]), ["jwt.pem"])
        self.assertNotIn("a: b # c", json.dumps([one for one in self.objects["secrets"] if one["kind"] != "Secret"]))
        variables = container(self.objects["secrets"])["env"]
        env = {one["name"]: one.get("valueFrom", {}).get("secretKeyRef") for one in variables}
        self.assertEqual(env["SHOP_TOKEN"], {"name": "shop", "key": "token"})
        self.assertEqual(env["CRM_TOKEN"], {"name": "crm", "key": "CRM_TOKEN"})
        self.assertEqual(of_kind(self.objects["default"], "Secret"), [])


class Lab(unittest.TestCase):
    """Agents and a run on them."""

    def setUp(self):
        self.found = objects(render("lab"))
        self.agents, self.run_job = lab_jobs(self.found)

    def test_without_lab_there_is_nothing_of_it(self):
        self.assertEqual([one for one in objects(render()) if is_lab(one)], [])

    def test_the_run_knows_the_names_of_all_agents(self):
        spec = self.agents["spec"]
        self.assertEqual((spec["completionMode"], spec["completions"], spec["parallelism"]), ("Indexed", 3, 3))
        service = of_kind(self.found, "Service", "-lab")[0]
        template = spec["template"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertIs(service["spec"]["publishNotReadyAddresses"], True)
        self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())
        self.assertEqual(template["spec"]["subdomain"], service["metadata"]["name"])
        # The host name of a pod of an Indexed Job is JOB-INDEX.
        job, domain = self.agents["metadata"]["name"], service["metadata"]["name"]
        names = ",".join(f"{job}-{index}.{domain}:7070" for index in range(3))
        self.assertIn(f"--agents={names}", self.arguments(self.run_job))
        self.assertTrue(self.run_job["spec"]["backoffLimit"] == 0)

    def test_nobody_else_selects_its_pods(self):
        for job in (self.agents, self.run_job):
            labels = job["spec"]["template"]["metadata"]["labels"].items()
            for kind, selector in (("Service", "selector"), ("NetworkPolicy", "podSelector")):
                for one in of_kind(self.found, kind):
                    chosen = one["spec"][selector].get("matchLabels", one["spec"][selector])
                    mine = is_lab(one) and job is self.agents
                    self.assertEqual(chosen.items() <= labels, mine, one["metadata"]["name"])

    def test_only_the_run_reaches_agents_and_agents_reach_weir(self):
        policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(self.found, "NetworkPolicy")}

        def labels_of(job):
            return job["spec"]["template"]["metadata"]["labels"]

        rule = policies[f"{PODS}-lab"]["ingress"]
        self.assertEqual(len(rule), 1)
        self.assertEqual(rule[0]["from"], [{"podSelector": {"matchLabels": labels_of(self.run_job)}}])
        traffic = policies[PODS]["ingress"][0]["from"]
        self.assertIn({"podSelector": {"matchLabels": labels_of(self.agents)}}, traffic)
        self.assertEqual(len(traffic), 2)

    def test_pods_are_restricted(self):
        serving = pod(self.found)
        for job in (self.agents, self.run_job):
            spec = job["spec"]["template"]["spec"]
            self.assertEqual(spec["securityContext"], serving["securityContext"])
            self.assertEqual(spec["nodeSelector"], {"example.com/pool": "load"})
            self.assertIs(spec["automountServiceAccountToken"], False)
            self.assertIs(spec["enableServiceLinks"], False)
            self.assertEqual(spec["restartPolicy"], "Never")
            one = spec["containers"][0]
            self.assertEqual(one["securityContext"], container(self.found)["securityContext"])
            self.assertIn("memory", one["resources"]["limits"])
            mounts = {mount["name"] for mount in one["volumeMounts"]}
            self.assertEqual(mounts, {volume["name"] for volume in spec["volumes"]})

    def test_other_values_are_another_run(self):
        def names(**values):
            found = objects(render("lab", values=values))
            return [one["metadata"]["name"] for one in lab_jobs(found)]

        before = names()
        self.assertEqual(before, names(config={"log": {"access": "off"}}))
        changed = names(lab={"agents": 4})
        self.assertFalse(set(before) & set(changed))
        self.assertFalse(set(before) & set(names(image={"tag": "other"})))
        longest = objects(helm("template", "a" * 53, CHART, *values_of("lab")).stdout)
        for job in lab_jobs(longest):
            self.assertLessEqual(len(job["metadata"]["name"]) + len("-99"), 63)
            for label in job["spec"]["template"]["metadata"]["labels"].values():
                self.assertLessEqual(len(label), 63)

    def arguments(self, job):
        return job["spec"]["template"]["spec"]["containers"][0]["args"]

    def test_the_rendered_commands_run(self):
        """Three agents and a run, by the rendered arguments, files and environment."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            data = next(one for one in of_kind(self.found, "ConfigMap", "-lab"))["data"]
            project(folder / "etc/weir-lab", data)
            project(folder / "run/secrets/lab", {"key": "0123456789abcdef"})
            paths = ("etc/weir-lab", "run/secrets/lab", "var/lib/weir-lab")
            moved = [(f"/{path}", f"{folder}/{path}") for path in paths]

            def command(job, *replaced):
                arguments = self.arguments(job)
                for old, new in (*moved, *replaced):
                    arguments = [one.replace(old, new) for one in arguments]
                return [server.binary(), *arguments]

            names = []
            for index in range(3):
                line = command(self.agents, ("0.0.0.0:7070", "127.0.0.1:0"))
                agent = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                stack.callback(agent.wait)
                stack.callback(agent.kill)
                stack.callback(agent.stdout.close)
                address = agent.stdout.readline().strip().removeprefix("listening on ")
                job, domain = self.agents["metadata"]["name"], f"{PODS}-lab"
                names.append((f"{job}-{index}.{domain}:7070", address))
            url = stack.enter_context(server.peer())
            # The receiver of metrics is down: that is no failure.
            replaced = (*names, ("http://test-weir", url), ("127.0.0.1:9090", f"127.0.0.1:{free_port()}"))
            done = subprocess.run(command(self.run_job, *replaced), capture_output=True, text=True, timeout=120)
            results = folder / "var/lib/weir-lab" / self.run_job["metadata"]["name"]
            summary = json.loads((results / "summary.json").read_text("utf-8"))
            cell = summary["cells"][0]
            self.assertEqual(cell["labels"][0]["samples"], 300, done.stdout + done.stderr)
            self.assertEqual(len(cell["agents"]), 3)
            # On a busy machine the verdict may be INVALID, but never an error of the arguments.
            self.assertIn(done.returncode, (0, 3), done.stdout + done.stderr)


class Values(unittest.TestCase):
    def test_wrong_values_are_refused(self):
        for values, problem in (
            ({"replica": 2}, "replica"),
            ({"config": {"listen": "0.0.0.0:80"}}, "config.listen: the chart writes this key"),
            ({"config": {"admin": {}}}, "config.admin: the chart writes this key"),
            ({"config": {"data": "/data"}}, "config.data: the chart writes this key"),
            ({"config": {"journal": {"disk": "16GiB"}}}, "does not fit in persistence.size"),
            ({"persistence": {"size": "8G"}}, "does not fit in persistence.size"),
            ({"terminationGracePeriodSeconds": 44}, "end a drain before it is complete"),
            ({"config": {"drain": {"deadline": "30"}}}, "deadline"),
            ({"listeners": {"http": None}}, "listeners"),
            ({"listeners": {"low": {"port": 80}}}, "port"),
            ({"listeners": {"admin": {"port": 8081}}}, "admin"),
            ({"listeners": {"http": {"settings": {"tls": "self-signed"}}}}, "tls"),
            ({"persistence": {"accessModes": ["ReadWriteMany"]}}, "accessModes"),
            ({"secrets": {"env": {"A": {"secretName": "a", "value": "b"}}}}, "env"),
            ({"secrets": {"files": {"A": {"secretName": "a"}}}}, "files"),
            ({"files": {"weir.yaml": "x"}}, "weir.yaml"),
            ({"image": {"digest": "sha256:1"}}, "digest"),
            ({"lab": {"enabled": True, "files": {"scenario.yaml": "lab: 1"}}}, "lab.secretName: name a Secret"),
            ({"lab": {"enabled": True, "secretName": "lab", "files": {"a.jmx": ""}}}, 'lab.files: no "scenario.yaml"'),
            ({"lab": {"agents": 0}}, "agents"),
            ({"lab": {"target": "shop"}}, "target"),
        ):
            with self.subTest(json.dumps(values)):
                done = helm("template", "test", CHART, "--values", "-", check=False, text=json.dumps(values))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(problem, done.stderr)

    def test_every_value_is_in_the_readme(self):
        import yaml

        text = (CHART / "README.md").read_text(encoding="utf-8")
        rows = {
            name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)
        }

        def paths(value, path=()):
            opened = (
                "config",
                "podSecurityContext",
                "securityContext",
                "dashboards.labels",
                "dashboards.annotations",
                "updateStrategy",
                "resources",
                "listeners",
                "probes",
                "persistence.retention",
                "lab.resources",
            )
            if isinstance(value, dict) and value and ".".join(path) not in opened:
                for key, below in value.items():
                    yield from paths(below, (*path, key))
            else:
                yield ".".join(path)

        values = set(paths(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))))
        self.assertEqual(values - rows, set(), "README.md does not list them")
        self.assertEqual(rows - values, set(), "README.md lists values that do not exist")

    def test_the_schema_knows_every_value(self):
        import yaml

        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
        values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))

    def test_the_grace_period_follows_the_drain(self):
        for drain, seconds in (
            ({}, 55),
            ({"delay": "500ms", "deadline": "1m30s"}, 106),
            ({"delay": "1h", "deadline": "0s"}, 3615),
        ):
            found = objects(render(values={"config": {"drain": drain}}))
            self.assertEqual(pod(found)["terminationGracePeriodSeconds"], seconds)
        # weir's own defaults: no delay, 30 s.
        found = objects(render(values={"config": {"drain": None}}))
        self.assertEqual(pod(found)["terminationGracePeriodSeconds"], 45)
        self.assertEqual(pod(objects(render("ephemeral")))["terminationGracePeriodSeconds"], 90)

    def test_a_change_restarts_pods_if_and_only_if_weir_needs_it(self):
        """The annotation of the pods is compared with what `weir diff` says about the two configurations."""
        recorded = objects(render("monitoring"))
        for values in (
            {"config": {"apis": {"other": {"base": "/other", "routes": [{"get": "/", "reply": {"text": "x"}}]}}}},
            {"config": {"log": {"access": "off"}}},
            {"config": {"drain": {"deadline": "20s"}}},
            {"config": {"limits": {"body": "1MiB"}}},
            {"config": {"tracker": {"mask": {"headers": ["x-other"]}}}},
            {"listeners": {"http": {"settings": {"trust": ["10.0.0.0/8"], "trust_headers": ["x-forwarded-for"]}}}},
            {"config": {"workers": 3}},
            {"config": {"monitor": {"count": [{"api": "hello"}]}}},
            {"config": {"journal": {"when_full": "refuse"}}},
            {"config": {"journal": {"disk": "9GiB"}}},
            {"config": {"journal": {"durability": "disk"}}},
            {"config": {"tracker": {"keep": {"completed": "3d"}}}},
            {"config": {"tracker": {"index": "keys"}}},
            {"config": {"tracker": {"enabled": False}}},
            {"config": {"tracker": {"keys": {"order": "$.order"}}}},
            {"listeners": {"http": {"port": 8081}}},
            {"listeners": {"more": {"port": 8081}}},
            {"listeners": {"http": {"certificates": ["shop"]}}},
            {"listeners": {"http": {"settings": {"proxy_protocol": ["10.0.0.0/8"]}}}},
            {"admin": {"hosts": ["ops.example.com"]}},
            {"admin": {"port": 9081}},
        ):
            self.compare(recorded, objects(render("monitoring", values=values)), values)
        before = objects(render())
        for values in (
            {"config": {"monitor": {"count": "all"}}},
            {"config": {"plans": {"gold": {"quota": {"calls": 9, "per": "day"}}}}},
            {"config": {"plans": {"gold": {"rate": "9/s"}}}},
        ):
            self.compare(before, objects(render(values=values)), values)

    def test_a_change_of_the_fleet_restarts_pods_if_weir_needs_it(self):
        before = objects(render("fleet"))
        for values in (
            {"config": {"fleet": {"name": "other"}}},
            {"config": {"fleet": {"postgres": {"url": "postgres://weir@other/weir"}}}},
            {"config": {"fleet": {"postgres": {"plain": False}}}},
            {"config": {"fleet": {"postgres": {"password": "another"}}}},
        ):
            self.compare(before, objects(render("fleet", values=values)), values)
        values = {"config": {"fleet": {"postgres": {"url": "postgres://weir@127.0.0.1/weir"}}}}
        self.compare(objects(render()), objects(render(values=values)), values)

    def compare(self, before, after, values):
        with self.subTest(json.dumps(values)), Node(before) as old, Node(after) as new:
            # The same folder and ports on both sides, except for what differs.
            new.ports = {**old.ports, **{port: free for port, free in new.ports.items() if port not in old.ports}}
            (old.etc / "new.yaml").write_text(self.text(after, old, new), encoding="utf-8")
            done = new.weir("diff", "--json", str(old.etc / "weir.yaml"), str(old.etc / "new.yaml"))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            needed = json.loads(done.stdout)["restart"]
            self.assertEqual(restart_hash(before) != restart_hash(after), bool(needed), needed)

    @staticmethod
    def text(found, old, new):
        name = stateful_set(found)["metadata"]["name"]
        one = next(one for one in of_kind(found, "ConfigMap") if one["metadata"]["name"] == name)
        text = new.moved(one["data"]["weir.yaml"])
        # Certificates are in the folder of the new node, data in that of the old one.
        return text.replace(f"{new.folder}/var/lib/weir", f"{old.folder}/var/lib/weir")

    def test_an_upgrade_of_the_chart_changes_no_fixed_field(self):
        """Kubernetes rejects a change of these fields of a StatefulSet; and no pod restarts without a reason."""
        with tempfile.TemporaryDirectory() as folder:
            helm("package", CHART, "--version", "9.9.9", "--destination", folder)
            for name in VALUES:
                old, new = (
                    stateful_set(objects(render(name, chart=chart)))
                    for chart in (CHART, Path(folder, "weir-9.9.9.tgz"))
                )
                self.assertNotEqual(old["metadata"]["labels"], new["metadata"]["labels"])
                self.assertEqual(old["spec"], new["spec"])

    def test_the_package_is_complete(self):
        with tempfile.TemporaryDirectory() as folder:
            helm("package", CHART, "--destination", folder)
            package = next(Path(folder).glob("*.tgz"))
            listed = subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout.split()
            for name in VALUES:
                self.assertEqual(render(name, chart=package), render(name))
        files = {name for name in listed if name.startswith("weir/files/")}
        dashboards = {f"weir/files/grafana/{path.name}" for path in (ROOT / "packaging/grafana").glob("*.json")}
        self.assertEqual(
            files, dashboards | {f"weir/files/prometheus/weir-{name}.yaml" for name in ("alerts", "recording")}
        )
        self.assertFalse([name for name in listed if name.startswith("weir/ci")])

    def test_the_version_is_that_of_weir(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE).group(1)
        chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
        self.assertIn(f"\nversion: {version}\n", chart)
        self.assertIn(f'\nappVersion: "{version}"\n', chart)


def notes(name):
    """The text that an installation prints."""
    done = helm("install", "test", CHART, "--namespace", "shop", "--dry-run=client", *values_of(name))
    return done.stdout.partition("NOTES:")[2]


PROXY = {"peer": {"base": "/", "routes": [{"path": "/*", "proxy": "peer"}]}}


class Served(unittest.TestCase):
    """The real binary in the files of a pod."""

    def test_every_configuration_is_valid(self):
        warned = {
            # Plain HTTP on purpose; the others only on this machine, where the test runs as root.
            "ephemeral": {"admin-without-tls"},
            "pools": {"agents-as-root"},
        }
        for name in VALUES:
            with self.subTest(name), Node(objects(render(name))) as node:
                done = node.weir("check", "--json", str(node.etc))
                report = json.loads(done.stdout)
                self.assertEqual(done.returncode, 0, json.dumps(report, indent=1) + done.stderr)
                # Loopback replaces 0.0.0.0 here, so the finding about the admin listener is that of the original text.
                codes = {one["code"] for one in report["findings"]}
                self.assertLessEqual(codes, warned.get(name, set()), json.dumps(report["findings"], indent=1))

    def test_an_open_admin_listener_has_tls_by_default(self):
        for name in VALUES:
            node_text = next(one for one in of_kind(objects(render(name)), "ConfigMap") if "weir.yaml" in one["data"])
            configuration = objects(node_text["data"]["weir.yaml"])[0]
            self.assertEqual("tls" in configuration["admin"], name != "ephemeral", name)

    def test_probes_and_scrape(self):
        for name in VALUES:
            # Without the delay of each end; another test has it.
            found = objects(render(name, values={"config": {"drain": {"delay": "0s"}}}))
            with self.subTest(name), Node(found) as node:
                node.start()
                for kind in ("startup", "liveness", "readiness"):
                    self.assertTrue(eventually(lambda kind=kind: node.probe(kind) == 200), f"{kind}: {node.log()}")
                probe = container(node.found)["readinessProbe"]["httpGet"]
                admin = next(one["containerPort"] for one in container(node.found)["ports"] if one["name"] == "admin")
                # Prometheus sends the address of the pod and no token.
                status, text = node.get(admin, "/metrics", probe["scheme"])
                self.assertEqual(status, 200)
                self.assertIn("weir_build_info", text)
                service = of_kind(node.found, "Service", "-admin")[0]["metadata"]["name"]
                for host in (service, f"{service}.shop.svc:9080", f"{service}.shop.svc.cluster.local"):
                    self.assertEqual(node.get(admin, "/readyz", probe["scheme"], Host=host)[0], 200, host)
                self.assertEqual(node.get(admin, "/readyz", probe["scheme"], Host="example.com")[0], 421)
                self.assertEqual(node.get(admin, "/v1/tokens", probe["scheme"])[0], 401)
                # The data folder is weir's own, whatever the volume's mode.
                self.assertEqual((node.folder / "var/lib/weir/data").stat().st_mode & 0o777, 0o700)
                node.process.send_signal(signal.SIGTERM)
                grace = pod(node.found)["terminationGracePeriodSeconds"]
                self.assertEqual(node.process.wait(timeout=grace), 0, node.log())

    def test_prometheus_verifies_the_certificate(self):
        """By the authority and name that the ServiceMonitor has."""
        with Node(objects(render("tls"))) as node:
            node.start()
            endpoint = of_kind(node.found, "ServiceMonitor")[0]["spec"]["endpoints"][0]
            expected = {"secret": {"name": "weir-admin-tls", "key": "ca.crt"}}
            self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"]["ca"]), ("https", expected))
            context = ssl.create_default_context(cafile=node.folder / "run/secrets/tls/weir-admin-tls/ca.crt")
            with socket.create_connection(("127.0.0.1", node.ports[9080])) as plain:
                with context.wrap_socket(plain, server_hostname=endpoint["tlsConfig"]["serverName"]) as connection:
                    address = f"127.0.0.1:{node.ports[9080]}"
                    connection.sendall(f"GET {endpoint['path']} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
                    self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200 "))

    def test_examples_answer(self):
        """Agents of a pool, an included file, a text of a file, and the greeting of the default values."""
        for name, path, expected in (
            ("default", "/", (200, "weir serves. Set config.apis in the values of the chart.\n")),
            ("pools", "/orders/7", (200, "ok\n")),
            ("secrets", "/words", (200, "{{ not a template }}")),
            ("secrets", "/shop/1", (401, None)),
        ):
            with self.subTest(name), Node(objects(render(name))) as node:
                node.start()
                status, body = node.get(8080, path)
                self.assertEqual((status, body if expected[1] else None), expected, node.log())

    def test_a_changed_configmap_is_reloaded(self):
        with Node(objects(render())) as node:
            node.start()
            self.assertIn("Set config.apis", node.get(8080, "/")[1])
            routes = [{"get": "/", "reply": {"text": "second"}}]
            after = objects(render(values={"config": {"apis": {"hello": {"base": "/", "routes": routes}}}}))
            self.assertEqual(restart_hash(node.found), restart_hash(after))
            node.configure(after)
            node.event("reloaded")
            self.assertEqual(node.get(8080, "/"), (200, "second"))
            # An error leaves the configuration in force, and the pod ready.
            node.configure(objects(render(values={"config": {"apis": {"hello": {"bases": "/"}}}})))
            node.event("reload-refused")
            self.assertEqual(node.get(8080, "/"), (200, "second"))
            self.assertEqual(node.probe("readiness"), 200)

    def test_a_renewed_certificate_is_loaded(self):
        values = {"listeners": {"http": {"certificates": ["shop"]}}}
        with Node(objects(render(values=values))) as node:
            node.start()

            def served():
                return ssl.get_server_certificate(("127.0.0.1", node.ports[8080]))

            first = served()
            pair = certificate(node.folder)
            project(node.folder / "run/secrets/tls", {f"shop/{name}": pair[name] for name in ("tls.crt", "tls.key")})
            node.event("reloaded")
            self.assertNotEqual(served(), first)
            self.assertEqual(served().split(), pair["tls.crt"].split())

    def test_termination_loses_no_request(self):
        """SIGTERM under load: readiness fails, liveness does not, requests are served, and the end is in time."""
        values = {"config": {"drain": {"delay": "3s", "deadline": "20s"}, "apis": PROXY}}
        with server.peer() as url:
            values["config"]["upstreams"] = {"peer": {"targets": [url]}}
            with Node(objects(render(values=values))) as node:
                node.start()
                statuses, failures, stop = [], [], threading.Event()

                def load():
                    while not stop.is_set():
                        started = time.monotonic()
                        try:
                            statuses.append(node.get(8080, "/")[0])
                        except (OSError, http.client.HTTPException) as error:
                            failures.append((started, error))
                            return

                # Longer than the delay: the request ends after the listeners have closed.
                slow = []
                threads = [threading.Thread(target=load) for _ in range(4)]
                threads.append(threading.Thread(target=lambda: slow.append(node.get(8080, "/?ms=5000")[0])))
                for thread in threads:
                    thread.start()
                self.assertTrue(eventually(lambda: len(statuses) > 20))
                self.assertEqual(failures, [])
                begin = time.monotonic()
                node.process.send_signal(signal.SIGTERM)
                node.event("draining")
                before = len(statuses)
                self.assertEqual(node.probe("readiness"), 503)
                self.assertEqual(node.probe("liveness"), 200)
                # Endpoints still name the pod: it serves.
                self.assertTrue(eventually(lambda: len(statuses) > before or failures))
                self.assertGreater(len(statuses), before)
                stop.set()
                grace = pod(node.found)["terminationGracePeriodSeconds"]
                self.assertEqual(grace, 38)
                code = node.process.wait(timeout=grace - (time.monotonic() - begin))
                for thread in threads:
                    thread.join()
                # On a slow machine, a request may have begun after the listeners closed, 3 s after the signal.
                lost = [error for started, error in failures if started < begin + 1]
                self.assertEqual((code, slow, set(statuses), lost), (0, [200], {200}, []), node.log())

    def test_termination_is_in_time_when_a_request_does_not_end(self):
        values = {"config": {"drain": {"delay": "0s", "deadline": "1s"}, "apis": PROXY}}
        with contextlib.ExitStack() as stack:
            # Accepts, and never answers.
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            values["config"]["upstreams"] = {"peer": {"targets": [url], "timeout": "5m"}}
            node = stack.enter_context(Node(objects(render(values=values))))
            node.start()
            connection = stack.enter_context(
                contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.ports[8080]))
            )
            connection.request("GET", "/")
            # The request has reached the upstream.
            stack.enter_context(silent.accept()[0])
            node.process.send_signal(signal.SIGTERM)
            code = node.process.wait(timeout=pod(node.found)["terminationGracePeriodSeconds"])
            self.assertEqual(code, 1, node.log())

    def test_the_user_of_the_pod_needs_no_more_rights(self):
        """The volume as Kubernetes gives it to the group, files of Secrets that only the group can read."""
        if os.geteuid() != 0:
            print("SKIPPED the user of the pod: only root can start a program as another user")
            return
        with Node(objects(render("secrets", values={"config": {"drain": {"delay": "0s"}}}))) as node:
            user = pod(node.found)["securityContext"]["runAsUser"]
            group = pod(node.found)["securityContext"]["fsGroup"]
            node.folder.chmod(0o755)
            volume = node.folder / "var/lib/weir"
            os.chown(volume, 0, group)
            volume.chmod(0o2775)
            for path in (node.folder / "run/secrets").rglob("*"):
                if path.is_file() and not path.is_symlink():
                    os.chown(path, 0, group)
                    path.chmod(0o440)
            # The build may be in a folder of root.
            program = shutil.copy(server.binary(), node.folder / "weir")
            node.start(program, user=user, group=group, extra_groups=[])
            self.assertEqual(node.probe("readiness"), 200)
            data = (volume / "data").stat()
            self.assertEqual((data.st_uid, data.st_mode & 0o777), (user, 0o700))
            self.assertNotIn("warning: the data folder", node.log())
            node.process.send_signal(signal.SIGTERM)
            self.assertEqual(node.process.wait(timeout=pod(node.found)["terminationGracePeriodSeconds"]), 0)

    def test_the_commands_of_the_notes_work(self):
        for name in ("default", "tls"):
            text = notes(name)
            commands = re.findall(r"kubectl -n shop exec test-weir-0 -- weir (.*)", text.replace("\\\n", ""))
            self.assertTrue(commands)
            with self.subTest(name), Node(objects(render(name))) as node:
                node.start()
                for command in commands:
                    done = node.weir(*node.moved(command).split())
                    self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
            self.assertIn("port-forward pod/test-weir-0 9080:9080", text)
            self.assertIn("https://localhost:9080/console/", text)

    def test_notes_warn(self):
        self.assertIn("independent nodes", notes("replicas"))
        self.assertNotIn("independent nodes", notes("default"))
        self.assertNotIn("independent nodes", notes("fleet"))
        self.assertIn("weir fleet status", notes("fleet"))
        self.assertIn("persistence.enabled is false", notes("ephemeral"))
        self.assertIn("admin.tls.enabled is false", notes("ephemeral"))
        self.assertNotIn("WARNING", notes("default"))


if __name__ == "__main__":
    if lacking := missing():
        print(f"SKIPPED the Helm chart: packaging/test/chart-tools installs {', '.join(lacking)}")
    else:
        unittest.main()
