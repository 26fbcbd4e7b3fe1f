"""What a cluster would get is valid by the schemas of Kubernetes, and by ours for what others define."""

import json
import pathlib
import re
import unittest

import jsonschema
import kubernetes_validate
import yaml

from rendered import (
    KUSTOMIZE,
    OVERLAYS,
    SOURCE,
    app_of,
    container_of,
    name_of,
    of_kind,
    pod_of,
    render,
    run_config_of,
    selects,
)

KUBERNETES = "1.37.0"
LABELS = {f"app.kubernetes.io/{key}" for key in ("name", "instance", "version", "component", "part-of", "managed-by")}
SELECTOR_LABELS = {f"app.kubernetes.io/{key}" for key in ("name", "instance", "component", "part-of")}
DEPRECATED = {"commonLabels", "patchesStrategicMerge", "patchesJson6902", "bases", "vars"}
CUSTOM = json.loads((pathlib.Path(__file__).parent / "custom_resources.json").read_text())


def selectors_in(value):
    """Every selector of labels in an object, wherever it is."""
    if isinstance(value, list):
        for item in value:
            yield from selectors_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "matchLabels":
                yield item
            elif key == "selector" and "matchLabels" not in item:
                yield item
            else:
                yield from selectors_in(item)


class EveryOverlayTest(unittest.TestCase):
    def each(self, check, kind=None):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, kind) if kind else render(overlay):
                with self.subTest(overlay=overlay, object=name_of(item)):
                    check(overlay, item)

    def test_there_are_the_three(self):
        self.assertEqual(OVERLAYS, ["laptop", "region-a", "region-b"])

    def test_is_valid_by_the_schemas(self):
        def check(_, item):
            custom = CUSTOM.get(f"{item['kind']} {item['apiVersion']}")
            if custom is None:
                kubernetes_validate.validate(item, KUBERNETES, strict=True)
            else:
                self.assertEqual(set(item), {"apiVersion", "kind", "metadata", "spec"})
                jsonschema.validate(item["spec"], custom)

        self.each(check)

    def test_the_schemas_refuse_what_is_wrong(self):
        for wrong in ({"maxDisrupted": 1}, {"maxUnavailable": [1]}):
            (item,) = of_kind("laptop", "PodDisruptionBudget")
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(item | {"spec": item["spec"] | wrong}, KUBERNETES, strict=True)

    def test_objects_are_in_the_namespace_and_named_once(self):
        for overlay in OVERLAYS:
            names = [name_of(item) for item in render(overlay)]
            self.assertEqual(len(names), len(set(names)), names)
            for item in render(overlay):
                self.assertEqual(item["metadata"].get("namespace", "diloco"), "diloco", name_of(item))

    def test_labels_are_complete(self):
        def check(_, item):
            self.assertEqual(LABELS - set(item["metadata"]["labels"]), set())
            if item["kind"] == "StatefulSet":
                self.assertEqual(set(item["spec"]["template"]["metadata"]["labels"]), LABELS)

        self.each(check)

    def test_nothing_that_cannot_change_names_the_release(self):
        def check(_, item):
            for selector in selectors_in(item):
                self.assertTrue(selector)
                self.assertLessEqual({key for key in selector if key.startswith("app.")}, SELECTOR_LABELS)
            for claim in item.get("spec", {}).get("volumeClaimTemplates", []):
                self.assertNotIn("app.kubernetes.io/version", claim["metadata"].get("labels", {}))

        self.each(check)

    def test_the_release_is_the_projects(self):
        version = re.search(r"project\(diloco VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]

        def check(_, item):
            self.assertEqual(item["metadata"]["labels"]["app.kubernetes.io/version"], version)
            if item["kind"] == "StatefulSet":
                self.assertTrue(container_of(item)["image"].endswith(f":{version}"), container_of(item)["image"])

        self.each(check)

    def test_generated_names_have_their_hash(self):
        def check(overlay, item):
            name = item["metadata"]["name"]
            self.assertRegex(name, r"-[a-z0-9]{10}$")
            users = [pod for pod in of_kind(overlay, "StatefulSet") if f'"{name}"' in json.dumps(pod)]
            self.assertEqual(len(users), 1)

        self.each(check, "ConfigMap")


class FilesTest(unittest.TestCase):
    """One object a file, each file in use, no deprecated fields."""

    kustomizations = sorted(KUSTOMIZE.rglob("kustomization.yaml"))

    def test_a_file_holds_one_object_and_is_named_after_it(self):
        for path in KUSTOMIZE.rglob("*.yaml"):
            if path.name in ("kustomization.yaml", "run.yaml") or path.stem.endswith("-patch"):
                continue
            with self.subTest(path=path.relative_to(KUSTOMIZE)):
                (item,) = yaml.safe_load_all(path.read_text())
                self.assertEqual(path.stem, f"{item['metadata']['name']}-{item['kind'].lower()}")

    def test_every_file_is_used(self):
        used = set()
        for path in self.kustomizations:
            spec = yaml.safe_load(path.read_text())
            names = spec.get("resources", []) + [patch["path"] for patch in spec.get("patches", [])]
            names += [name for generator in spec.get("configMapGenerator", []) for name in generator.get("files", [])]
            used.update((path.parent / name).resolve() for name in names)
        files = set(KUSTOMIZE.rglob("*")) - set(self.kustomizations)
        self.assertEqual({path for path in files if path.is_file()} - used, set())

    def test_labels_stay_out_of_selectors(self):
        for path in self.kustomizations:
            with self.subTest(path=path.relative_to(KUSTOMIZE)):
                spec = yaml.safe_load(path.read_text())
                self.assertFalse(DEPRECATED & set(spec))
                self.assertTrue(all(labels["includeSelectors"] is False for labels in spec.get("labels", [])))


class RunbookTest(unittest.TestCase):
    def test_its_manifest_is_valid_and_mounts_a_claim_that_exists(self):
        text = (SOURCE / "deploy" / "RUNBOOK.md").read_text()
        (block,) = re.findall(r"^( *)```yaml\n(.*?)^ *```$", text, re.M | re.S)
        pod = yaml.safe_load(block[1])
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        claims = {item["metadata"]["name"] for item in of_kind("region-a", "PersistentVolumeClaim")}
        self.assertIn(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], claims)


class TrafficTest(unittest.TestCase):
    """Who reaches whom."""

    def pods(self, overlay, selector):
        sets = of_kind(overlay, "StatefulSet")
        return [item for item in sets if selects(selector, item["spec"]["template"]["metadata"]["labels"])]

    def test_a_service_selects_one_pod_and_names_ports_that_it_has(self):
        for overlay in OVERLAYS:
            for service in of_kind(overlay, "Service"):
                with self.subTest(overlay=overlay, service=service["metadata"]["name"]):
                    (pod,) = self.pods(overlay, service["spec"]["selector"])
                    ports = {port["name"] for port in container_of(pod)["ports"]}
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
                    self.assertEqual({port["name"] for port in service["spec"]["ports"]} - ports, set())

    def test_a_set_has_its_headless_service(self):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, "StatefulSet"):
                (service,) = [
                    s for s in of_kind(overlay, "Service") if s["metadata"]["name"] == item["spec"]["serviceName"]
                ]
                self.assertEqual(service["spec"]["clusterIP"], "None")
                self.assertEqual([item], self.pods(overlay, service["spec"]["selector"]))

    def test_only_regions_with_a_coordinator_open_a_port_to_others(self):
        external = {
            o: [s["metadata"]["name"] for s in of_kind(o, "Service") if s["spec"].get("type")] for o in OVERLAYS
        }
        self.assertEqual(external, {"region-a": ["coordinator-external"], "region-b": [], "laptop": []})
        (service,) = [s for s in of_kind("region-a", "Service") if s["spec"].get("type")]
        self.assertEqual(service["spec"]["type"], "LoadBalancer")
        self.assertEqual([(p["port"], p["targetPort"]) for p in service["spec"]["ports"]], [(7070, "grpc")])
        self.assertEqual(service["spec"]["externalTrafficPolicy"], "Local")

    def test_every_pod_has_one_policy_for_both_directions(self):
        for overlay in OVERLAYS:
            policies = of_kind(overlay, "NetworkPolicy")
            for item in of_kind(overlay, "StatefulSet"):
                labels = item["spec"]["template"]["metadata"]["labels"]
                (policy,) = [p for p in policies if selects(p["spec"]["podSelector"]["matchLabels"], labels)]
                self.assertEqual(policy["spec"]["policyTypes"], ["Ingress", "Egress"])

    def admitted(self, rules, side):
        """{(peer, port)} of a policy, peers in short."""
        result = set()
        for rule in rules:
            for peer in rule[side]:
                ((kind, value),) = peer.items()
                who = value["cidr"] if kind == "ipBlock" else ",".join(value["matchLabels"].values())
                result |= {(who, port["port"]) for port in rule["ports"]}
        return result

    def test_policies_admit_what_the_programs_do_and_no_more(self):
        workers = ("diloco-worker", "grpc")
        scrape = ("monitoring", "http")
        names = ("kube-system", 53)
        home = ("diloco-coordinator", "grpc")
        expected = {
            ("laptop", "coordinator"): ({workers, scrape}, set()),
            ("laptop", "worker-east"): ({scrape}, {names, home}),
            ("laptop", "worker-west"): ({scrape}, {names, home}),
            ("region-a", "coordinator"): ({workers, ("198.51.100.0/24", "grpc"), scrape}, set()),
            ("region-a", "worker-east"): ({scrape}, {names, home}),
            ("region-b", "worker-west"): ({scrape}, {names, ("203.0.113.10/32", 7070)}),
        }
        found = {}
        for overlay in OVERLAYS:
            for policy in of_kind(overlay, "NetworkPolicy"):
                spec = policy["spec"]
                found[overlay, policy["metadata"]["name"]] = (
                    self.admitted(spec["ingress"], "from"),
                    self.admitted(spec["egress"], "to"),
                )
        self.assertEqual(found, expected)

    def test_the_monitoring_finds_every_pod_and_says_which_it_is(self):
        """As Prometheus does by way of the operator: {pod: (job, run, worker)}."""
        found = {}
        for overlay in ("region-a", "region-b"):
            (monitor,) = of_kind(overlay, "ServiceMonitor")
            (endpoint,) = monitor["spec"]["endpoints"]
            (relabel,) = endpoint["relabelings"]
            for service in of_kind(overlay, "Service"):
                labels = service["metadata"]["labels"]
                ports = {port["name"] for port in service["spec"]["ports"]}
                if not selects(monitor["spec"]["selector"]["matchLabels"], labels) or endpoint["port"] not in ports:
                    continue
                meta = {
                    "__meta_kubernetes_service_label_" + re.sub(r"\W", "_", key): value for key, value in labels.items()
                }
                match = re.fullmatch(relabel["regex"], ";".join(meta[key] for key in relabel["sourceLabels"]))
                self.assertEqual((monitor["spec"]["targetLabels"], relabel["targetLabel"]), (["run"], "worker"))
                (pod,) = self.pods(overlay, service["spec"]["selector"])
                found[overlay, pod["metadata"]["name"]] = (
                    labels[monitor["spec"]["jobLabel"]],
                    labels["run"],
                    match and match[1],
                )
        run = yaml.safe_load(run_config_of("region-a"))["run"]["id"]
        self.assertEqual(
            found,
            {
                ("region-a", "coordinator"): ("diloco-coordinator", run, None),
                ("region-a", "worker-east"): ("diloco-worker", run, "east"),
                ("region-b", "worker-west"): ("diloco-worker", run, "west"),
            },
        )

    def test_the_alerts_are_those_of_the_project(self):
        alerts = yaml.safe_load((SOURCE / "deploy/observability/alerts/diloco.rules.yaml").read_text())
        for overlay in ("region-a", "region-b"):
            (rule,) = of_kind(overlay, "PrometheusRule")
            self.assertEqual(rule["spec"], alerts, "run deploy/observability/prometheusrule.sh")


class PlacementTest(unittest.TestCase):
    def test_who_is_where(self):
        where = {o: [item["metadata"]["name"] for item in of_kind(o, "StatefulSet")] for o in OVERLAYS}
        self.assertEqual(
            where,
            {
                "laptop": ["coordinator", "worker-east", "worker-west"],
                "region-a": ["coordinator", "worker-east"],
                "region-b": ["worker-west"],
            },
        )

    def test_each_is_one_process_with_volumes_that_outlive_it(self):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, "StatefulSet"):
                self.assertEqual(item["spec"]["replicas"], 1)
                self.assertEqual(
                    item["spec"]["persistentVolumeClaimRetentionPolicy"],
                    {"whenDeleted": "Retain", "whenScaled": "Retain"},
                )

    def test_gpus_are_asked_for_by_workers_of_regions_alone(self):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, "StatefulSet"):
                asks = container_of(item)["resources"]["limits"].get("nvidia.com/gpu")
                self.assertEqual(asks, "1" if overlay != "laptop" and app_of(item) == "diloco-worker" else None)
                self.assertEqual("nodeSelector" in pod_of(item), asks is not None)

    def test_a_node_can_be_drained(self):
        for overlay in ("laptop", "region-a"):
            (budget,) = of_kind(overlay, "PodDisruptionBudget")
            self.assertEqual(budget["spec"]["maxUnavailable"], 1)
            self.assertNotIn("minAvailable", budget["spec"])
            (coordinator,) = [i for i in of_kind(overlay, "StatefulSet") if app_of(i) == "diloco-coordinator"]
            labels = coordinator["spec"]["template"]["metadata"]["labels"]
            self.assertTrue(selects(budget["spec"]["selector"]["matchLabels"], labels))


if __name__ == "__main__":
    unittest.main()
