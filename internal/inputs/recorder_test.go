package inputs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inputs"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// bench is a Recorder with a fake informer and the lines that the Recorder wrote. full simulates a
// full queue.
type bench struct {
	*testing.T
	recorder *inputs.Recorder
	others   heard
	full     bool
	lines    []decisionlog.Inputs
	// broken makes the write of the next line fail.
	broken bool
}

// heard is a fake informer. A test calls its handler to send events.
type heard struct{ handler cache.ResourceEventHandler }

// AddEventHandler implements inputs.Informer.
func (h *heard) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.handler = handler
	return told{}, nil
}

type told struct{}

func (told) HasSynced() bool                     { return true }
func (told) HasSyncedChecker() cache.DoneChecker { return nil }

func newBench(t *testing.T, whole decisionlog.Whole) *bench {
	t.Helper()
	b := &bench{T: t}
	b.recorder = inputs.New(inputs.Options{Process: "p", Whole: whole, Append: b.append})
	if _, err := b.recorder.Follow("namespaces", &b.others); err != nil {
		t.Fatal(err)
	}
	b.recorder.Begin()
	return b
}

// append encodes a line at once, unless full or broken is set.
func (b *bench) append(line decisionlog.Line) bool {
	if b.full {
		return false
	}
	var out bytes.Buffer
	if err := line.Encode(&out); err != nil {
		b.Fatal(err)
	}
	if b.broken {
		b.broken = false
		line.Unwritten(errors.New("no space left on device"))
		return true
	}
	in, err := decisionlog.ParseInputs(out.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	line.Written()
	b.lines = append(b.lines, in)
	return true
}

func podNamed(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"who": "me"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "secret", Command: []string{"run"}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, NominatedNodeName: "elsewhere"},
	}
}

// nodeWith returns the NodeInfo of a node with pods, at a generation.
func nodeWith(name string, generation int64, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	info.Generation = generation
	return info
}

// hear passes a change of a pod to the Recorder. The next snapshot includes the change.
func (b *bench) hear(pod *corev1.Pod, exists bool) {
	b.recorder.Heard(pod, exists)
	b.recorder.Looks()
}

// seen passes the inputs of a decision to the Recorder and returns the number of the line.
func (b *bench) seen(what inputs.Seen) uint64 {
	what.Now = time.Unix(1, 0)
	return b.recorder.Seen(&what)
}

// inWords returns a line as text: its number, the number of the previous line, and its objects,
// deletions and reservations.
func inWords(in *decisionlog.Inputs) string {
	var out []string
	for resource, list := range in.Objects {
		for _, raw := range list {
			object, err := inventory.Parse(raw)
			if err != nil {
				return err.Error()
			}
			word := resource + "/" + object.Name
			var pod corev1.Pod
			if resource == inventory.Pods && object.Into(&pod) == nil && pod.Spec.NodeName != "" {
				word += "@" + pod.Spec.NodeName
			}
			out = append(out, word)
		}
	}
	for resource, list := range in.Gone {
		for _, name := range list {
			out = append(out, "-"+resource+strings.TrimPrefix(name, "ns"))
		}
	}
	for _, p := range in.Promised {
		out = append(out, p.UID+"=>"+p.Node)
	}
	slices.Sort(out)
	return strings.TrimSpace(fmt.Sprintf("%d<%d ", in.Number, in.From) + strings.Join(out, " "))
}

func (b *bench) want(want ...string) {
	b.Helper()
	var got []string
	for i := range b.lines {
		got = append(got, inWords(&b.lines[i]))
	}
	if !slices.Equal(got, want) {
		b.Errorf("The lines are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.lines = nil
}

// TestWhatDecisionsSaw checks that pods on nodes come from the decision's snapshot, and other
// objects from informers.
func TestWhatDecisionsSaw(t *testing.T) {
	t.Parallel()
	b := newBench(t, decisionlog.Whole{})
	waits, runs := podNamed("waits", ""), podNamed("runs", "a")
	b.hear(waits, true)
	// The informer and the snapshot both have this pod with a node. The line must contain it once,
	// from the snapshot.
	b.hear(runs, true)
	if n := b.seen(inputs.Seen{Nodes: []fwk.NodeInfo{nodeWith("a", 1, runs), nodeWith("b", 1)}}); n != 1 {
		t.Errorf("The first line is %d", n)
	}
	b.want("1<0 nodes/a nodes/b pods/runs@a pods/waits")
	// 1. Nothing has changed.
	same := []fwk.NodeInfo{nodeWith("a", 1, runs), nodeWith("b", 1)}
	if n := b.seen(inputs.Seen{Nodes: same}); n != 1 {
		t.Errorf("Without a change, the line is %d, want the first", n)
	}
	b.want()
	// 2. The scheduler assumes a node for the pod and later drops the node. The informer has seen
	// neither change.
	assumed := podNamed("waits", "b")
	b.seen(inputs.Seen{Nodes: []fwk.NodeInfo{same[0], nodeWith("b", 2, assumed)}})
	b.want("2<1 nodes/b pods/waits@b")
	b.seen(inputs.Seen{Nodes: []fwk.NodeInfo{same[0], nodeWith("b", 3)}})
	b.want("3<2 nodes/b pods/waits")
	// 3. A decision is about a pod that no informer has yet, and reserves room for it. Later, the
	// informer gets the pod.
	late := podNamed("late", "")
	b.seen(inputs.Seen{Nodes: same, Pods: []*corev1.Pod{late}})
	b.want("4<3 nodes/b pods/late")
	b.seen(inputs.Seen{Nodes: same, Promised: []inputs.ReservedRoom{{Pod: late, Node: "b"}}})
	b.want("5<4 uid-late=>b")
	b.seen(inputs.Seen{Nodes: same})
	b.want("6<5 -pods/late")
	b.hear(late, true)
	b.seen(inputs.Seen{Nodes: same})
	b.want("7<6 pods/late")
	// 4. The framework changes a node in place.
	if info, ok := same[0].(*framework.NodeInfo); ok {
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"new": ""}}})
		info.Generation++
	}
	b.seen(inputs.Seen{Nodes: same})
	b.want("8<7 nodes/a")
	// 5. A node is deleted with its pods. Other objects change.
	b.others.handler.OnAdd(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, false)
	b.hear(late, false)
	b.seen(inputs.Seen{Nodes: same[1:]})
	b.want("9<8 -nodes/a -pods/late -pods/runs namespaces/ns")
}

// TestWhatIsHeardMeanwhile checks that the inputs of a decision do not include changes that arrive
// while it is made.
func TestWhatIsHeardMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, decisionlog.Whole{})
	nodes := []fwk.NodeInfo{nodeWith("a", 1)}
	b.recorder.Heard(podNamed("before", ""), true)
	b.recorder.Looks()
	b.recorder.Heard(podNamed("meanwhile", ""), true)
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("1<0 nodes/a pods/before")
	b.recorder.Looks()
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("2<1 pods/meanwhile")
	// A pod is created with the name of a deleted pod. The deletion arrives after the creation.
	another := podNamed("before", "")
	another.UID = "another"
	b.hear(another, true)
	b.hear(podNamed("before", ""), false)
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("3<2 pods/before")
}

// TestPreemptorInTheSnapshot checks a pod of the preemptor that has a node in the snapshot but not
// in the decision.
func TestPreemptorInTheSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t, decisionlog.Whole{})
	pod := podNamed("one", "")
	b.hear(pod, true)
	nodes := []fwk.NodeInfo{nodeWith("a", 1, podNamed("one", "a"))}
	b.seen(inputs.Seen{Nodes: nodes, Pods: []*corev1.Pod{pod}})
	b.want("1<0 nodes/a pods/one")
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("2<1 pods/one@a")
}

// TestFinishedWhoseNameIsAnothers checks a relist that reports a deletion and a creation as an
// update, because both pods have one name.
func TestFinishedWhoseNameIsAnothers(t *testing.T) {
	t.Parallel()
	b := newBench(t, decisionlog.Whole{})
	var finished heard
	if _, err := b.recorder.FollowFinished(&finished); err != nil {
		t.Fatal(err)
	}
	member := podNamed("one", "a")
	member.Status.Phase = corev1.PodSucceeded
	finished.handler.OnAdd(member, true)
	b.seen(inputs.Seen{})
	b.want("1<0 pods/one@a")
	// The informer has only the names of pods without a group.
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "uid-other"}}
	finished.handler.OnUpdate(member, other)
	b.seen(inputs.Seen{})
	b.want("2<1 -pods/one")
}

// TestNothingIsLost checks that the next line contains the changes that could not be queued. After
// a line that could not be written, the next line contains the whole cluster.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, decisionlog.Whole{Version: "v"})
	nodes := []fwk.NodeInfo{nodeWith("a", 1)}
	var head bytes.Buffer
	if err := b.recorder.Head(&head); err != nil || head.Len() > 0 {
		t.Errorf("Before the first line a file begins with %q, %v", &head, err)
	}
	b.seen(inputs.Seen{Nodes: nodes})
	b.full = true
	b.hear(podNamed("one", ""), true)
	if n := b.seen(inputs.Seen{Nodes: nodes}); n != 0 {
		t.Errorf("With no room for it, the line is %d", n)
	}
	b.full = false
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("1<0 nodes/a", "2<1 pods/one")
	b.broken = true
	b.hear(podNamed("two", ""), true)
	b.seen(inputs.Seen{Nodes: nodes})
	b.hear(podNamed("three", ""), true)
	b.seen(inputs.Seen{Nodes: nodes})
	if len(b.lines) != 1 || b.lines[0].Whole == nil || b.lines[0].Whole.Version != "v" {
		t.Fatalf("The lines are %+v, want a whole one", b.lines)
	}
	b.want("4<0 nodes/a pods/one pods/three pods/two")
	if err := b.recorder.Head(&head); err != nil {
		t.Fatal(err)
	}
	in, err := decisionlog.ParseInputs(head.Bytes())
	if got := inWords(&in); err != nil || got != "4<0 nodes/a pods/one pods/three pods/two" || in.Whole == nil {
		t.Errorf("A file begins with %s, %v", got, err)
	}
}

// TestEachFileHasTheWholeClusterOnce checks that each file contains the whole cluster exactly once,
// at its start.
func TestEachFileHasTheWholeClusterOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	file, err := decisionlog.OpenFile(path, 1500, 5)
	if err != nil {
		t.Fatal(err)
	}
	log := decisionlog.New(decisionlog.Options{Out: file})
	recorder := inputs.New(inputs.Options{Process: "p", Append: log.Append})
	file.BeginWith(recorder.Head)
	recorder.Begin()
	nodes := []fwk.NodeInfo{nodeWith("a", 1)}
	for i := range 6 {
		recorder.Heard(podNamed(fmt.Sprintf("p-%d", i), ""), true)
		recorder.Looks()
		recorder.Seen(&inputs.Seen{Now: time.Unix(1, 0), Nodes: nodes})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if got := strings.Count(string(text), `"whole":`); got != 1 || !strings.Contains(first, `"whole":`) {
			t.Errorf("%s has the whole cluster %d times: %s", filepath.Base(name), got, text)
		}
	}
}

// TestWhatIsLeftOut checks which fields lines lack: the commands of containers, and nominated
// nodes, because lines contain the reservations. Redacted lines also lack images and most
// annotations.
func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redacted        bool
		wantNot, wantIn []string
	}{
		"in full":  {wantNot: []string{"command", "elsewhere"}, wantIn: []string{"secret", `"who"`}},
		"redacted": {redacted: true, wantNot: []string{"command", "elsewhere", "secret", `"who"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, decisionlog.Whole{Redacted: c.redacted})
			b.hear(podNamed("one", ""), true)
			b.seen(inputs.Seen{Nodes: []fwk.NodeInfo{nodeWith("a", 1)}})
			text := string(b.lines[0].Objects[inventory.Pods][0])
			for _, word := range append(c.wantIn, `"kind":"Pod"`, `"apiVersion":"v1"`) {
				if !strings.Contains(text, word) {
					t.Errorf("It lacks %s: %s", word, text)
				}
			}
			for _, word := range c.wantNot {
				if strings.Contains(text, word) {
					t.Errorf("It has %s: %s", word, text)
				}
			}
		})
	}
}

// TestRoots checks that lines contain the objects that define which pods belong together. The first
// line names the kinds of these objects, even if there are none.
func TestRoots(t *testing.T) {
	t.Parallel()
	b := &bench{T: t}
	b.recorder = inputs.New(inputs.Options{Process: "p", Append: b.append})
	b.recorder.FollowRoots(nil)
	b.recorder.Begin()
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
	job.SetNamespace("ns")
	job.SetName("train")
	job.SetAnnotations(map[string]string{"reprieve.dev/gang": "true"})
	b.recorder.Known(jobs, job)
	nodes := []fwk.NodeInfo{nodeWith("a", 1)}
	b.seen(inputs.Seen{Nodes: nodes})
	if whole := b.lines[0].Whole; whole.Roots == nil || len(whole.Roots) > 0 {
		t.Errorf("The kinds are %v, want none, and not nothing", whole.Roots)
	}
	if text := string(b.lines[0].Objects["jobs.batch"][0]); !strings.Contains(text, `"reprieve.dev/gang":"true"`) {
		t.Errorf("The Job is %s", text)
	}
	b.recorder.Forgotten(jobs, "ns", "train")
	b.seen(inputs.Seen{Nodes: nodes})
	b.want("1<0 jobs.batch/train nodes/a", "2<1 -jobs.batch/train")
}

// BenchmarkSeen measures the recording of one decision in a cluster of 1,200 nodes and 8,400 pods.
// One node has changed since the previous decision.
func BenchmarkSeen(b *testing.B) {
	r := inputs.New(inputs.Options{Process: "p", Append: func(decisionlog.Line) bool { return true }})
	r.Begin()
	nodes := make([]fwk.NodeInfo, 1200)
	pods := make([][]*corev1.Pod, len(nodes))
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		for k := range 7 {
			pods[i] = append(pods[i], podNamed(fmt.Sprintf("%s-%d", name, k), name))
		}
		nodes[i] = nodeWith(name, 1, pods[i]...)
	}
	r.Seen(&inputs.Seen{Now: time.Unix(1, 0), Nodes: nodes})
	// The framework changes a NodeInfo in place.
	for at := 0; b.Loop(); at = (at + 1) % len(nodes) {
		if info, ok := nodes[at].(*framework.NodeInfo); ok {
			info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: info.Node().Name}})
			info.Generation++
		}
		if r.Seen(&inputs.Seen{Now: time.Unix(1, 0), Nodes: nodes}) == 0 {
			b.Fatal("It is not written")
		}
	}
}
