package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const (
	// newField is a field in the spec of Queues that the last release does not have.
	newField = "maxPriorityClass"
	// second is the name of a scheduler profile that the upgrade adds.
	second = "batch"
)

// TestHelm runs the helm commands in the README of the chart while work runs. Running work must
// continue during an upgrade and during rollbacks. Waiting work must be placed exactly once. The
// CRDs must match the chart. After an uninstall, only the objects in the README may remain.
func TestHelm(t *testing.T) {
	h := startHelm(t, map[string]int{"system": 1, "gang": 2, "plain": 1, "stream": 1}, "system")
	h.createNamespace(t)
	h.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	w := watchWork(t, h.cluster)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *helm, *workWatch)
	}{
		{"the last release is installed", testInstall},
		{"an upgrade", testUpgrade},
		{"a rollback", testRollback},
		{"upgraded again", testUpgradeAgain},
		{"forward by a rollback", testForward},
		{"what an uninstall leaves", testUninstall},
		{"it is installed again", testReinstall},
		{"all is removed", testRemoveAll},
		{"what kustomize installed is taken over", testTakeOwnership},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, h, w) }) {
			return
		}
	}
}

// testInstall installs the last release. It creates a gang and pods that fill the nodes, and pods
// of the same priority that must wait.
func testInstall(t *testing.T, h *helm, _ *workWatch) {
	h.run(t, "install", release, lastRelease, "--wait")
	for _, crd := range h.installed(t).ofKind("CustomResourceDefinition") {
		h.waitServed(t, crd)
	}
	h.waitNewField(t, false)
	whole := asks("nvidia.com/gpu", "4")
	h.create(t, &v1alpha1.PodGroup{ObjectMeta: meta("train"), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: gangOfTwo(low)}},
		newPod("train-0", "gang", low, memberOf("train"), whole), newPod("train-1", "gang", low, memberOf("train"), whole),
		newPod("plain-0", "plain", low, asks("nvidia.com/gpu", "3")))
	h.waitRunning(t, "train-0", "train-1", "plain-0")
	h.waitGroup(t, "train", isScheduled(lowValue))
	h.create(t, &v1alpha1.PodGroup{ObjectMeta: meta("next"), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: gangOfTwo(low)}},
		newPod("next-0", "gang", low, memberOf("next"), whole), newPod("next-1", "gang", low, memberOf("next"), whole),
		newPod("plain-1", "plain", low, asks("nvidia.com/gpu", "2")))
	h.waitEvent(t, "Pod", "plain-1", "FailedScheduling")
	h.stream("stream")
}

// waiting returns the names of pods that wait until the running pods are deleted.
func waiting() []string { return []string{"next-0", "next-1", "plain-1"} }

// upgrade upgrades the release to the current chart.
func (h *helm) upgrade(t *testing.T) {
	t.Helper()
	h.run(t, "upgrade", release, chartPath(t), "--reset-then-reuse-values", "--wait", "--set", "replicas=3", "--set", "logLevel=3",
		"--set-json", `profiles=[{"schedulerName":"`+name+`"},{"schedulerName":"`+second+`"}]`,
		"--set-json", `queues=[{"name":"research","spec":{"quota":{"nvidia.com/gpu":"4"}}}]`)
}

func testUpgrade(t *testing.T, h *helm, w *workWatch) {
	before := h.pods(t)
	h.upgrade(t)
	after := h.pods(t)
	for _, pod := range after {
		if slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID }) || !slices.Contains(pod.Spec.Containers[0].Args, "--v=3") {
			t.Errorf("Pod %s with %q is not of the upgrade", pod.Name, pod.Spec.Containers[0].Args)
		}
	}
	if len(after) != 3 {
		t.Errorf("there are %d Pods, want 3", len(after))
	}
	h.waitNewField(t, true)
	h.create(t,
		newPod("second", "stream", low, func(pod *corev1.Pod) { pod.Spec.SchedulerName = second }),
		&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: v1alpha1.QueueSpec{MaxPriorityClass: ptr.To(low)}})
	h.createTree(t)
	h.waitPlaced(t, waiting()...)
	w.check(t, h.cluster)

	// After these pods are deleted, the upgraded scheduler must place the waiting pods.
	w.mayLeave("train-0", "train-1")
	for _, pod := range []string{"train-0", "train-1"} {
		if err := h.Delete(t.Context(), newPod(pod, "", "")); err != nil {
			t.Fatal(err)
		}
	}
	h.waitRunning(t, "next-0", "next-1")
}

func testRollback(t *testing.T, h *helm, w *workWatch) {
	h.run(t, "rollback", release, "1", "--wait")
	if pods := h.pods(t); len(pods) != 2 {
		t.Errorf("there are %d Pods, want 2", len(pods))
	}
	h.waitNewField(t, false)
	eventually(t, "what the API server does not know any more", func(ctx context.Context) string {
		value, err := h.queueField(ctx, "own", newField)
		if err != nil {
			return err.Error()
		}
		if value != "" {
			return newField + " is still " + value
		}
		return ""
	})
	if _, err := h.queueField(t.Context(), "research", newField); !apierrors.IsNotFound(err) {
		t.Errorf("the Queue of the upgrade: %v, want that it is not found", err)
	}
	h.checkTree(t)
	h.waitPlaced(t, "plain-1")
	w.check(t, h.cluster)
}

// testUpgradeAgain upgrades again after a rollback. The rollback has kept the CRDs that the last
// release does not have. Before the upgrade, the test changes these CRDs to look like the CRDs of
// an older version.
func testUpgradeAgain(t *testing.T, h *helm, w *workWatch) {
	added := h.addedDefinitions(t)
	for _, crd := range added {
		h.makeOlder(t, crd)
	}
	h.upgrade(t)
	for _, crd := range added {
		h.wantNewest(t, crd)
	}
	h.checkForward(t, w)
}

// testForward rolls back to the last release, and then to the revision of the upgrade. The second
// command may fail: Helm sends an invalid patch for the CRDs that the last release does not have.
// If it fails, it must succeed when it is repeated.
func testForward(t *testing.T, h *helm, w *workWatch) {
	h.run(t, "rollback", release, "1", "--wait")
	added := h.addedDefinitions(t)
	if output, err := h.try(t, "rollback", release, "2", "--wait"); err != nil {
		if len(added) == 0 || !strings.Contains(output, "metadata.resourceVersion") {
			t.Fatalf("%v\n%s", err, output)
		}
		h.run(t, "rollback", release, "2", "--wait")
	}
	h.checkForward(t, w)
	// Check the rejected requests now. In later steps of the test, Helm deletes the roles before
	// the Pods, so requests are rejected.
	for _, line := range refused(readAudit(t, h.auditLog)) {
		if !isOfAddedKind(line, added) {
			t.Errorf("the API server refused %s", line)
		}
	}
}

// isOfAddedKind reports whether a request reads a kind that the last release does not have, or
// writes the status of such an object. The ClusterRole of the last release does not name such kinds.
// A new scheduler may start with that ClusterRole, and a rollback changes the ClusterRole before the
// new schedulers end.
func isOfAddedKind(line string, added manifests) bool {
	return slices.ContainsFunc(added, func(crd *unstructured.Unstructured) bool {
		plural, group, _ := strings.Cut(crd.GetName(), ".")
		writesStatus := strings.HasPrefix(line, fmt.Sprintf("patch /apis/%s/v1alpha1/namespaces/", group)) &&
			strings.Contains(line, "/"+plural+"/") && strings.Contains(line, "/status: ")
		return writesStatus || strings.HasPrefix(line, fmt.Sprintf("list /apis/%s/v1alpha1/%s", group, plural))
	})
}

// checkForward checks that the objects of the upgrade exist again, and that the work was not
// disturbed.
func (h *helm) checkForward(t *testing.T, w *workWatch) {
	t.Helper()
	h.waitNewField(t, true)
	if _, err := h.queueField(t.Context(), "research", newField); err != nil {
		t.Error(err)
	}
	h.checkTree(t)
	h.waitPlaced(t, "plain-1")
	w.check(t, h.cluster)
}

// testUninstall uninstalls the release, and compares the remaining objects with the list in the
// README of the chart.
func testUninstall(t *testing.T, h *helm, w *workWatch) {
	objects := h.installed(t)
	h.meanwhile = func(*testing.T) {}
	h.run(t, "uninstall", release, "--wait")
	stay := []client.Object{
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.PodGroup{ObjectMeta: meta("next")},
		&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
	}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			stay = append(stay, object)
		} else {
			h.waitRemoved(t, object)
		}
	}
	for _, object := range stay {
		if err := h.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("%T %s: %v, want that it stays", object, object.GetName(), err)
		}
	}
	h.create(t, newPod("later", "stream", low))
	w.check(t, h.cluster)
}

// testReinstall installs a release that adopts the remaining objects. It must place the pods that
// were created without a scheduler.
func testReinstall(t *testing.T, h *helm, w *workWatch) {
	var later corev1.Pod
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(newPod("later", "", "")), &later); err != nil || later.Spec.NodeName != "" {
		t.Errorf("the pod without a scheduler has the node %q (%v)", later.Spec.NodeName, err)
	}
	h.run(t, "install", release, chartPath(t), "--wait")
	h.waitPlaced(t, "plain-1")
	w.check(t, h.cluster)
}

// testRemoveAll follows the instructions in the README of the chart to remove everything.
func testRemoveAll(t *testing.T, h *helm, w *workWatch) {
	definitions := h.installed(t).ofKind("CustomResourceDefinition")
	h.run(t, "uninstall", release, "--wait")
	for _, crd := range definitions {
		if err := h.Delete(t.Context(), crd); err != nil {
			t.Error(err)
		}
	}
	for _, crd := range definitions {
		h.waitRemoved(t, crd)
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := h.Delete(t.Context(), home); err != nil {
		t.Error(err)
	}
	h.waitRemoved(t, home)
	w.check(t, h.cluster)
}

func (h *helm) waitRemoved(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s", object, object.GetName()), func(ctx context.Context) string {
		err := h.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return "it is still there"
	})
}

// testTakeOwnership migrates an installation from kubectl apply -k to Helm.
func testTakeOwnership(t *testing.T, h *helm, w *workWatch) {
	h.manifests = render(t, deployPath(t))
	h.install(t)
	h.settle(t)
	if output, err := h.try(t, "install", release, chartPath(t), "--wait"); err == nil {
		t.Errorf("helm takes over what is there without being told to:\n%s", output)
	}
	h.run(t, "install", release, chartPath(t), "--wait", "--take-ownership")
	for _, object := range h.installed(t) {
		if err := h.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Error(err)
		}
		if got := object.GetLabels()["app.kubernetes.io/managed-by"]; got != "Helm" {
			t.Errorf("%s %s is managed by %q", object.GetKind(), object.GetName(), got)
		}
	}
	w.check(t, h.cluster)
}

// waitNewField waits until the CRD of Queues has newField. If want is false, it waits until the CRD
// lacks newField.
func (h *helm) waitNewField(t *testing.T, want bool) {
	t.Helper()
	eventually(t, "the definition of Queues", func(ctx context.Context) string {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := h.Get(ctx, client.ObjectKey{Name: "queues.reprieve.dev"}, &crd); err != nil {
			return err.Error()
		}
		_, has := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties[newField]
		if has != want {
			return newField + " is not as it should be"
		}
		return ""
	})
}
