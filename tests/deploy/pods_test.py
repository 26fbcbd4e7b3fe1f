"""What a pod is allowed, asked and given: security, probes, resources, files, time to stop."""

import unittest

import yaml

from rendered import OVERLAYS, app_of, container_of, environment_of, find, flags_of, of_kind, pod_of, run_config_of

UNITS = {"Mi": 2**20, "Gi": 2**30}
# README, "Restarts": a checkpoint's bytes for each parameter, on disk and in memory; the two newest are kept.
CHECKPOINT_BYTES = 40
CHECKPOINTS_ON_DISK = 3
# A slow network disk.
WRITE_BYTES_PER_SECOND = 100e6
# A run's state on the coordinator: parameters and the momentum of `nesterov`, both float32.
CONSENSUS_BYTES = 8


def bytes_of(quantity):
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


def parameters_of(overlay):
    """README, "Configuration": embedding and head, layers with attention, feed-forward and norms, a last norm."""
    model = yaml.safe_load(run_config_of(overlay))["model"]
    width, ffn = model["width"], model.get("ffn", 4 * model["width"])
    head_width = width // model["heads"]
    layer = 4 * width**2 + 2 * width * ffn + 2 * width + 2 * head_width
    return 2 * model["vocabulary"] * width + model["layers"] * layer + width


class PodsTest(unittest.TestCase):
    def each(self, check):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, "StatefulSet"):
                with self.subTest(overlay=overlay, pod=item["metadata"]["name"]):
                    check(overlay, item)

    def test_keep_to_the_restricted_standard(self):
        def check(overlay, item):
            pod = pod_of(item)
            self.assertIs(pod["automountServiceAccountToken"], False)
            self.assertIs(pod["enableServiceLinks"], False)
            self.assertEqual(
                pod["securityContext"],
                {
                    "runAsNonRoot": True,
                    "runAsUser": 10001,
                    "runAsGroup": 10001,
                    "fsGroup": 10001,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            )
            self.assertEqual(
                container_of(item)["securityContext"],
                {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
            )
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod))
            self.assertLessEqual(
                {kind for volume in pod["volumes"] for kind in volume if kind != "name"},
                {"configMap", "secret", "persistentVolumeClaim"},
            )

        self.each(check)
        for overlay in OVERLAYS:
            labels = find(overlay, "Namespace", "diloco")["metadata"]["labels"]
            self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")

    def test_are_live_at_once_and_ready_when_the_program_says_so(self):
        def check(_, item):
            container = container_of(item)
            port = {port["name"]: port["containerPort"] for port in container["ports"]}
            self.assertEqual(flags_of(item)["--http"], f"0.0.0.0:{port['http']}")
            for probe, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
                self.assertEqual(container[f"{probe}Probe"]["httpGet"], {"path": path, "port": "http"})
            self.assertEqual(port["http"], 7071)
            if app_of(item) == "diloco-coordinator":
                self.assertEqual(flags_of(item)["--listen"], f"0.0.0.0:{port['grpc']}")
                self.assertEqual(port["grpc"], 7070)

        self.each(check)

    def test_ask_for_what_they_are_limited_to(self):
        def check(_, item):
            resources = container_of(item)["resources"]
            self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
            self.assertIn("cpu", resources["requests"])
            self.assertIn("cpu", resources["limits"])

        self.each(check)

    def test_have_every_file_that_a_flag_names(self):
        def check(overlay, item):
            mounts = {mount["mountPath"]: mount for mount in container_of(item)["volumeMounts"]}
            named = list(flags_of(item).values()) + list(environment_of(overlay, item).values())
            paths = [path for path in named if path.startswith("/") and not path.startswith("/usr/share/")]
            for path in paths:
                under = [mount for mount in mounts if path == mount or path.startswith(mount + "/")]
                self.assertEqual(len(under), 1, f"{path} is in no volume")
            for mount in mounts:
                self.assertTrue(
                    any(path == mount or path.startswith(mount + "/") for path in paths), f"{mount} is idle"
                )
            volumes = {volume["name"] for volume in pod_of(item)["volumes"]}
            claims = {claim["metadata"]["name"] for claim in item["spec"]["volumeClaimTemplates"]}
            self.assertEqual({mount["name"] for mount in mounts.values()}, volumes | claims)
            for mount in mounts.values():  # Written to: only what outlives the pod.
                self.assertEqual(mount.get("readOnly", False), mount["name"] not in claims)

        self.each(check)

    def test_write_to_a_folder_in_their_volume(self):
        """A volume of its own file system has `lost+found` at its top."""
        for app, flag in (("diloco-coordinator", "--data-dir"), ("diloco-worker", "--checkpoint-folder")):

            def check(_, item):
                if app_of(item) == app:
                    self.assertRegex(flags_of(item)[flag], r"^/var/lib/diloco/\w+$")

            self.each(check)

    def test_have_time_and_room_for_a_checkpoint(self):
        run_of = {"laptop": "laptop", "region-a": "region-a", "region-b": "region-a"}

        def check(overlay, item):
            if app_of(item) != "diloco-worker":
                return
            size = CHECKPOINT_BYTES * parameters_of(run_of[overlay])
            self.assertGreater(pod_of(item)["terminationGracePeriodSeconds"], 2 * size / WRITE_BYTES_PER_SECOND)
            (claim,) = item["spec"]["volumeClaimTemplates"]
            self.assertGreater(bytes_of(claim["spec"]["resources"]["requests"]["storage"]), CHECKPOINTS_ON_DISK * size)
            self.assertGreater(bytes_of(container_of(item)["resources"]["limits"]["memory"]), size)

        self.each(check)

    def test_the_coordinator_has_room_for_the_run(self):
        for overlay in ("laptop", "region-a"):
            coordinator = find(overlay, "StatefulSet", "coordinator")
            parameters = parameters_of(overlay)
            run = yaml.safe_load(run_config_of(overlay))
            every = run.get("rounds", {}).get("snapshot_every", 10)
            # Snapshots kept and being written, a final checkpoint, and int8 global deltas since the snapshot before.
            disk = parameters * (3 * CONSENSUS_BYTES + 4 + 2 * every)
            (claim,) = coordinator["spec"]["volumeClaimTemplates"]
            self.assertGreater(bytes_of(claim["spec"]["resources"]["requests"]["storage"]), disk)
            memory = bytes_of(container_of(coordinator)["resources"]["limits"]["memory"])
            self.assertGreater(memory, parameters * (2 * CONSENSUS_BYTES + run["run"]["workers"] + 2 * every))


class CertificatesTest(unittest.TestCase):
    """Each program finds its certificate, and it says who the program is."""

    def test_are_what_the_pods_mount(self):
        for overlay in ("region-a", "region-b"):
            issued = {c["spec"]["secretName"]: c for c in of_kind(overlay, "Certificate")}
            for item in of_kind(overlay, "StatefulSet"):
                (secret,) = [v["secret"]["secretName"] for v in pod_of(item)["volumes"] if "secret" in v]
                certificate = issued.pop(secret)
                variables = environment_of(overlay, item)
                run = yaml.safe_load(run_config_of("region-a"))["run"]["id"]
                if app_of(item) == "diloco-coordinator":
                    who, usage = f"spiffe://{run}/coordinator", "server auth"
                else:
                    who, usage = f"spiffe://{run}/worker/{variables['DILOCO_ID']}", "client auth"
                    self.assertEqual(variables["DILOCO_RUN"], run)
                self.assertEqual(certificate["spec"]["uris"], [who])
                self.assertIn(usage, certificate["spec"]["usages"])
                files = {variables[f"DILOCO_TLS_{name}"] for name in ("CERT", "KEY", "CA")}
                self.assertEqual(files, {f"/etc/diloco/tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")})
            self.assertEqual(set(issued), {"admin-tls"} if overlay == "region-a" else set())

    def test_the_coordinators_has_every_name_that_workers_connect_to(self):
        names = find("region-a", "Certificate", "coordinator")["spec"]["dnsNames"]
        for overlay, worker in (("region-a", "worker-east"), ("region-b", "worker-west")):
            address = environment_of(overlay, find(overlay, "StatefulSet", worker))["DILOCO_COORDINATOR"]
            host, port = address.rsplit(":", 1)
            self.assertIn(host, names)
            self.assertEqual(port, "7070")

    def test_come_from_the_issuer_of_the_overlay(self):
        for overlay in ("region-a", "region-b"):
            (issuer,) = of_kind(overlay, "Issuer")
            for certificate in of_kind(overlay, "Certificate"):
                self.assertEqual(
                    certificate["spec"]["issuerRef"], {"kind": "Issuer", "name": issuer["metadata"]["name"]}
                )

    def test_plaintext_is_the_laptops_alone(self):
        for overlay in OVERLAYS:
            for item in of_kind(overlay, "StatefulSet"):
                variables = environment_of(overlay, item)
                self.assertEqual(any(name.startswith("DILOCO_TLS_") for name in variables), overlay != "laptop")
                allowed = overlay == "laptop" and app_of(item) == "diloco-coordinator"
                self.assertEqual("DILOCO_ALLOW_PLAINTEXT" in variables, allowed)


class WorkersTest(unittest.TestCase):
    def test_of_a_run_are_as_many_as_it_expects_with_ids_of_their_own(self):
        for overlays in (("laptop",), ("region-a", "region-b")):
            ids = [
                environment_of(overlay, item)["DILOCO_ID"]
                for overlay in overlays
                for item in of_kind(overlay, "StatefulSet")
                if app_of(item) == "diloco-worker"
            ]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual(len(ids), yaml.safe_load(run_config_of(overlays[0]))["run"]["workers"])

    def test_connect_to_the_coordinator_of_their_cluster_or_the_external_one(self):
        for overlay in OVERLAYS:
            local = [s["metadata"]["name"] for s in of_kind(overlay, "Service") if app_of(s) == "diloco-coordinator"]
            for item in of_kind(overlay, "StatefulSet"):
                if app_of(item) == "diloco-worker":
                    host = environment_of(overlay, item)["DILOCO_COORDINATOR"].rsplit(":", 1)[0]
                    self.assertEqual(host in local, bool(local), host)


if __name__ == "__main__":
    unittest.main()
