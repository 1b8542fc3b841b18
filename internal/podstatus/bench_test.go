package podstatus

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// bench is a Writer with a fake client. A test determines the duration and the error of each call.
// Tests in test/integration check a real API server: how it merges conditions and that it checks
// the UID.
type bench struct {
	t      *testing.T
	writer *Writer
	pods   *fake.Clientset
	// limiter limits status changes.
	limiter flowcontrol.RateLimiter

	mu sync.Mutex
	// calls lists the completed calls, such as "p: node n", "p: no room" or "bind p".
	calls []string
	// answer is called before each call. It may sleep, and it returns the error of the call.
	answer func(call string) error
}

// in runs a test with fake time, on a bench with the given pods.
func in(t *testing.T, do func(b *bench), pods ...*corev1.Pod) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for _, pod := range pods {
			objects = append(objects, pod.DeepCopy())
		}
		b := &bench{t: t, pods: fake.NewClientset(objects...), answer: func(string) error { return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		client := slow{b.pods, b}
		b.limiter = flowcontrol.NewFakeAlwaysRateLimiter()
		b.writer = New(ctx, client, client, limited{b}, clock.RealClock{})
		var running sync.WaitGroup
		running.Go(b.writer.Run)
		defer running.Wait()
		defer cancel()
		do(b)
	})
}

// limited is a RateLimiter that uses the bench's current limiter, so that a test can replace the
// limiter.
type limited struct{ b *bench }

func (l limited) TryAccept() bool                { return l.b.limiter.TryAccept() }
func (l limited) Accept()                        { l.b.limiter.Accept() }
func (l limited) Stop()                          {}
func (l limited) QPS() float32                   { return l.b.limiter.QPS() }
func (l limited) Wait(ctx context.Context) error { return l.b.limiter.Wait(ctx) }

// call runs the function answer. If answer returns no error, call runs do, which makes the call.
func (b *bench) call(name string, do func() error) error {
	b.mu.Lock()
	answer := b.answer
	b.mu.Unlock()
	err := answer(name)
	b.mu.Lock()
	b.calls = append(b.calls, name)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	return do()
}

// slow is a client that reports each call to the bench. It permits concurrent calls, which the fake
// client does not.
type slow struct {
	kubernetes.Interface
	b *bench
}

type slowCore struct {
	typedcorev1.CoreV1Interface
	b *bench
}

type slowPods struct {
	typedcorev1.PodInterface
	b *bench
}

func (s slow) CoreV1() typedcorev1.CoreV1Interface { return slowCore{s.Interface.CoreV1(), s.b} }

func (s slowCore) Pods(namespace string) typedcorev1.PodInterface {
	return slowPods{s.CoreV1Interface.Pods(namespace), s.b}
}

func (s slowPods) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subs ...string) (pod *corev1.Pod, err error) {
	err = s.b.call(describe(s.b.t, name, data), func() error {
		pod, err = s.PodInterface.Patch(ctx, name, pt, data, opts, subs...)
		return err
	})
	return pod, err
}

func (s slowPods) Bind(_ context.Context, binding *corev1.Binding, _ metav1.CreateOptions) error {
	return s.b.call("bind "+binding.Name, func() error { return nil })
}

func describe(t *testing.T, pod string, raw []byte) string {
	var patch struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Errorf("A patch is %s: %v", raw, err)
	}
	out := pod + ":"
	if raw, ok := patch.Status[nominatedNodeName]; ok {
		var node *string
		if err := json.Unmarshal(raw, &node); err != nil {
			t.Error(err)
		}
		if node == nil {
			out += " no node"
		} else {
			out += " node " + *node
		}
	}
	if raw, ok := patch.Status[conditions]; ok {
		var list []corev1.PodCondition
		if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
			t.Errorf("The conditions are %s: %v", raw, err)
			return out
		}
		messages := make([]string, len(list))
		for i := range list {
			messages[i] = list[i].Message
		}
		out += " " + strings.Join(messages, ", ")
	}
	return out
}

func (b *bench) answering(answer func(call string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// expect waits until all goroutines are idle. It then fails the test if the calls since the
// previous expect differ from want.
func (b *bench) expect(want ...string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.calls, want) {
		b.t.Errorf("Calls are %q, want %q", b.calls, want)
	}
	b.calls = nil
}

// says records a status of a pod, as the framework does. message is the reason why the pod is not
// scheduled. nominating is the pod's node; it may be nil.
func (b *bench) says(pod *corev1.Pod, message string, nominating *fwk.NominatingInfo) {
	b.t.Helper()
	var conditions []*corev1.PodCondition
	if message != "" {
		conditions = append(conditions, unscheduled(message))
	}
	b.saysAll(pod, conditions, nominating)
}

// saysAll records several conditions of a pod at once, as the framework does.
func (b *bench) saysAll(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) {
	b.t.Helper()
	done, err := b.writer.PatchPodStatus(pod, conditions, nominating)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.writer.WaitOnFinish(b.t.Context(), done); err != nil {
		b.t.Error(err)
	}
}

// bind binds a pod as the framework's binder does.
func (b *bench) bind(pod *corev1.Pod) error {
	done, err := b.writer.BindPod(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}})
	if err != nil {
		return err
	}
	return b.writer.WaitOnFinish(b.t.Context(), done)
}

// nominate records nominations and writes them, as the evictor does.
func (b *bench) nominate(nominations ...Nomination) {
	b.t.Helper()
	for _, claim := range b.writer.Nominate(nominations) {
		if err := b.writer.Write(b.t.Context(), claim); err != nil {
			b.t.Error(err)
		}
	}
}

// writeAll writes the claims.
func (b *bench) writeAll(claims []Claim) {
	b.t.Helper()
	for _, claim := range claims {
		if err := b.writer.Write(b.t.Context(), claim); err != nil {
			b.t.Error(err)
		}
	}
}

// condition returns the PodScheduled condition that a pod has in the API.
func (b *bench) condition(pod string) corev1.PodCondition {
	b.t.Helper()
	got, err := b.pods.CoreV1().Pods("ns").Get(b.t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range got.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	b.t.Fatalf("The conditions are %+v", got.Status.Conditions)
	return corev1.PodCondition{}
}

// unscheduled returns a PodScheduled condition with status False and the message.
func unscheduled(message string) *corev1.PodCondition {
	return &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}
}

// resized returns a condition of a type other than PodScheduled.
func resized(message string) *corev1.PodCondition {
	return &corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: message}
}

func to(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
}

func nominated(name, node string) *corev1.Pod {
	p := newPod(name)
	p.Status.NominatedNodeName = node
	return p
}
