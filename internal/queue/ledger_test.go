package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

const gpu = "nvidia.com/gpu"

var gpus = []string{gpu}

func list(v int64) corev1.ResourceList {
	return corev1.ResourceList{gpu: *resource.NewQuantity(v, resource.DecimalSI)}
}

func queueUnder(name, parent string, change ...func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if parent != "" {
		q.Spec.Parent = ptr.To(parent)
	}
	for _, c := range change {
		c(&q.Spec)
	}
	return q
}

func quota(v int64) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.Quota = list(v) }
}
func limit(v int64) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.Limit = list(v) }
}

// pod returns a pod that requests v GPUs. It is on the node, or pending if node is "".
func pod(name string, v int64, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: list(v)},
		}}},
	}
}

// node returns a node with v GPUs and no other resources.
func node(name string, v int64, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list(v)}}
	for _, c := range change {
		c(n)
	}
	return n
}

func boardOf(queues ...*v1alpha1.Queue) *Ledger {
	b := NewLedger()
	b.SetNode(node("n", 8))
	for _, q := range queues {
		b.SetQueue(q)
	}
	b.AllCharged()
	return b
}

// values returns the GPUs of each queue, from vectors by index in the tree.
func values(s *Snapshot, of []fairshare.Amounts) map[string]int64 {
	out := make(map[string]int64)
	for i := range of {
		out[s.Tree.Queue(int32(i)).Name] = of[i][0]
	}
	return out
}

func TestStanding(t *testing.T) {
	b := boardOf(queueUnder("top", ""), queueUnder("a", "top"), queueUnder("b", "top"), queueUnder("c", ""))
	b.Charge(pod("a1", 2, "n"), "a")
	b.Charge(pod("a2", 3, ""), "a")
	b.Charge(pod("b1", 1, "n"), "b")
	b.Charge(pod("c1", 4, ""), "c")
	b.Charge(pod("none", 1, "n"), "")
	b.Charge(pod("inner", 1, "n"), "top")
	leaving := pod("leaving", 4, "n")
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	b.Charge(leaving, "")
	gone := pod("going", 1, "n")
	gone.DeletionTimestamp = ptr.To(metav1.Now())
	b.Charge(gone, "c")
	s := b.Snapshot(gpus)
	if diff := cmp.Diff(map[string]int64{"top": 3, "a": 2, "b": 1, "c": 1}, values(s, s.Allocated)); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"top": 6, "a": 5, "b": 1, "c": 4}, values(s, s.Requested)); diff != "" {
		t.Errorf("requested (-want +got):\n%s", diff)
	}
	// The shares divide 6 of the 8 GPUs: one pod is in no queue, and one is in a queue that is no
	// leaf.
	if diff := cmp.Diff(map[string]int64{"top": 3, "a": 2, "b": 1, "c": 3}, values(s, s.Shares)); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]fairshare.Amounts{"top": {1}}, s.Orphaned); diff != "" {
		t.Errorf("orphaned (-want +got):\n%s", diff)
	}
	if b.Snapshot(gpus) != s {
		t.Error("nothing has changed, and it was worked out again")
	}
	b.Forget("none")
	if b.Snapshot(gpus) == s {
		t.Error("something has changed, and it was not worked out again")
	}
}

// TestBooksBalance charges pods at random, in all their states, and then removes all of them.
// Nothing must be left in the ledger.
func TestBooksBalance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := boardOf(queueUnder("top", ""), queueUnder("a", "top"), queueUnder("b", ""))
	names := []string{"a", "b", "top", "", "nowhere"}
	for range 2000 {
		p := pod(fmt.Sprintf("p%d", r.IntN(20)), int64(1+r.IntN(4)), []string{"", "n"}[r.IntN(2)])
		p.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}[r.IntN(3)]
		if r.IntN(4) == 0 {
			p.DeletionTimestamp = ptr.To(metav1.Now())
		}
		switch r.IntN(10) {
		case 0:
			b.Forget(p.UID)
		case 1:
			b.SetQueue(queueUnder("a", []string{"", "top"}[r.IntN(2)]))
		default:
			b.Charge(p, names[r.IntN(len(names))])
		}
	}
	for i := range 20 {
		b.Forget(types.UID(fmt.Sprintf("p%d", i)))
	}
	s := b.Snapshot(gpus)
	for i := range s.Tree.Len() {
		if s.Allocated[i][0] != 0 || s.Requested[i][0] != 0 {
			t.Errorf("queue %s is left with %v allocated and %v requested", s.Tree.Queue(int32(i)).Name, s.Allocated[i], s.Requested[i])
		}
	}
	for name, a := range b.allocated {
		if len(a) != 0 {
			t.Errorf("%s is left with %v", name, a)
		}
	}
	if len(b.accounts) != 0 {
		t.Errorf("%d accounts are left", len(b.accounts))
	}
}

func TestNothingIsKeptWithoutQueues(t *testing.T) {
	b := boardOf()
	b.Charge(pod("a", 1, "n"), "a")
	if s := b.Snapshot(gpus); s != nil || len(b.pods) != 0 {
		t.Errorf("standing %+v and %d pods without a queue", s, len(b.pods))
	}
	if first, _ := b.SetQueue(queueUnder("a", "")); !first {
		t.Error("the first queue is not said to be the first")
	}
	b.Charge(pod("a", 1, "n"), "a")
	b.DeleteQueue("a")
	if s := b.Snapshot(gpus); s != nil || len(b.pods) != 0 || len(b.accounts) != 0 {
		t.Errorf("standing %+v, %d pods and %d accounts after the last queue", s, len(b.pods), len(b.accounts))
	}
}

func TestCheck(t *testing.T) {
	b := boardOf(
		queueUnder("top", ""), queueUnder("leaf", "top"), queueUnder("lost", "nowhere"), queueUnder("below", "lost"),
		queueUnder("egg", "hen"), queueUnder("hen", "egg"), queueUnder("self", "self"),
	)
	tests := map[string]struct {
		queue, wantReason, wantMessage string
	}{
		"none":                       {},
		"a leaf":                     {queue: "leaf"},
		"unknown":                    {queue: "other", wantReason: v1alpha1.ReasonQueueNotFound, wantMessage: `Queue "other" does not exist`},
		"not a leaf":                 {queue: "top", wantReason: v1alpha1.ReasonQueueNotLeaf, wantMessage: `such as "leaf"`},
		"below a missing one":        {queue: "below", wantReason: v1alpha1.ReasonQueueUnusable, wantMessage: `the parent "nowhere" of Queue "lost" does not exist`},
		"in a cycle, and not a leaf": {queue: "egg", wantReason: v1alpha1.ReasonQueueNotLeaf},
		"its own parent":             {queue: "self", wantReason: v1alpha1.ReasonQueueUnusable, wantMessage: "its own ancestor"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := b.Check(tt.queue)
			if v.Reason != tt.wantReason || !strings.Contains(v.Message, tt.wantMessage) {
				t.Errorf("verdict %+v, want %s with %q", v, tt.wantReason, tt.wantMessage)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	two := Amounts{gpu: 2, corev1.ResourceCPU: 1000}
	tests := map[string]struct {
		queues   []*v1alpha1.Queue
		placed   map[string]int64
		reserved map[string]int64
		gone     []types.UID
		requests []Amounts
		want     int
		wantOver string
	}{
		"no limit": {queues: []*v1alpha1.Queue{queueUnder("a", "")}, placed: map[string]int64{"a": 100}, requests: []Amounts{two}, want: 1},
		"up to the limit": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", limit(6))}, placed: map[string]int64{"a": 2}, requests: []Amounts{two, two, two}, want: 2,
			wantOver: `Queue "a" has a limit of 6 nvidia.com/gpu: 6 are in use and 2 more are needed`,
		},
		"of a parent, with what others have there": {
			queues: []*v1alpha1.Queue{queueUnder("top", "", limit(6)), queueUnder("a", "top", limit(6)), queueUnder("b", "top")},
			placed: map[string]int64{"b": 5}, requests: []Amounts{two}, want: 0,
			wantOver: `Queue "top" has a limit of 6 nvidia.com/gpu: 5 are in use and 2 more are needed`,
		},
		"what is reserved counts": {
			queues:   []*v1alpha1.Queue{queueUnder("top", "", limit(4)), queueUnder("a", "top"), queueUnder("b", "top")},
			reserved: map[string]int64{"b": 3}, requests: []Amounts{two}, want: 0,
			wantOver: `Queue "top" has a limit of 4 nvidia.com/gpu: 3 are in use and 2 more are needed`,
		},
		"but not what is on its way out, on a node or only promised one": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", limit(4))}, placed: map[string]int64{"a": 2}, reserved: map[string]int64{"a": 2},
			gone: []types.UID{"placed-a", "reserved-a"}, requests: []Amounts{two, two}, want: 2,
		},
		"a limit of nothing": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", limit(0))}, requests: []Amounts{two}, want: 0,
			wantOver: `Queue "a" has a limit of 0 nvidia.com/gpu: 0 are in use and 2 more are needed`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := boardOf(tt.queues...)
			var reserved []types.UID
			for queue, v := range tt.placed {
				b.Charge(pod("placed-"+queue, v, "n"), queue)
				// A pod with a node is not counted again because of its reservation.
				reserved = append(reserved, types.UID("placed-"+queue))
			}
			for queue, v := range tt.reserved {
				b.Charge(pod("reserved-"+queue, v, ""), queue)
				reserved = append(reserved, types.UID("reserved-"+queue))
			}
			n, over := b.Room("a", tt.requests, reserved, tt.gone)
			if n != tt.want {
				t.Errorf("room for %d, want %d", n, tt.want)
			}
			switch {
			case over == nil && tt.wantOver != "":
				t.Errorf("nothing in the way, want %q", tt.wantOver)
			case over != nil && over.Sentence() != tt.wantOver:
				t.Errorf("in the way is %q, want %q", over.Sentence(), tt.wantOver)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	all := []*v1alpha1.Queue{
		queueUnder("top", "", quota(2)), queueUnder("a", "top", quota(4)), queueUnder("lost", "nowhere"), queueUnder("egg", "hen"), queueUnder("hen", "egg"),
	}
	b := boardOf(all...)
	b.Charge(pod("a1", 2, "n"), "a")
	b.Charge(pod("a2", 1, ""), "a")
	b.Charge(pod("x", 1, "n"), "top")
	s := b.Snapshot(b.Resources())
	tests := map[string]struct {
		kind        string
		want        metav1.ConditionStatus
		wantReason  string
		wantMessage string
	}{
		"a":    {v1alpha1.ConditionQuotaServed, metav1.ConditionFalse, v1alpha1.ReasonQuotaAboveParent, `the quota of nvidia.com/gpu is above that of the parent "top"`},
		"top":  {v1alpha1.ConditionOrphans, metav1.ConditionTrue, v1alpha1.ReasonHasWork, "1 nvidia.com/gpu"},
		"lost": {v1alpha1.ConditionQueueReady, metav1.ConditionFalse, v1alpha1.ReasonParentNotFound, `"nowhere"`},
		"egg":  {v1alpha1.ConditionQueueReady, metav1.ConditionFalse, v1alpha1.ReasonParentCycle, "comes back"},
	}
	for _, q := range all {
		tt, ok := tests[q.Name]
		if !ok {
			continue
		}
		t.Run(q.Name, func(t *testing.T) {
			got := q.DeepCopy()
			s.SetStatus(got, b.WholeGroups(s))
			c := apimeta.FindStatusCondition(got.Status.Conditions, tt.kind)
			if c == nil || c.Status != tt.want || c.Reason != tt.wantReason || !strings.Contains(c.Message, tt.wantMessage) {
				t.Errorf("condition %+v, want %+v", c, tt)
			}
			if q.Name == "top" && got.Status.Waiting != 1 {
				t.Errorf("%d pods wait, want 1", got.Status.Waiting)
			}
			if v := got.Status.Allocated[gpu]; q.Name == "a" && v.Value() != 2 {
				t.Errorf("allocated %v, want 2", got.Status.Allocated)
			}
		})
	}
}

// TestStatusSettles checks that a second update does not change the status of a queue, for each
// fault that the status can report.
func TestStatusSettles(t *testing.T) {
	for name, c := range map[string]struct {
		queues []*v1alpha1.Queue
		want   string
	}{
		"nothing wrong":          {queues: []*v1alpha1.Queue{queueUnder("it", "")}, want: v1alpha1.ReasonQueueReady},
		"a parent that is not":   {queues: []*v1alpha1.Queue{queueUnder("it", "gone")}, want: v1alpha1.ReasonParentNotFound},
		"a cycle":                {queues: []*v1alpha1.Queue{queueUnder("it", "other"), queueUnder("other", "it")}, want: v1alpha1.ReasonParentCycle},
		"a quota above parent's": {queues: []*v1alpha1.Queue{queueUnder("it", "top", quota(4)), queueUnder("top", "", quota(2))}, want: v1alpha1.ReasonQuotaAboveParent},
		"work in an inner queue": {queues: []*v1alpha1.Queue{queueUnder("it", ""), queueUnder("below", "it")}, want: v1alpha1.ReasonHasWork},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(c.queues...)
			b.Charge(pod("p", 1, "n"), "it")
			s := b.Snapshot(gpus)
			first := c.queues[0].DeepCopy()
			s.SetStatus(first, b.WholeGroups(s))
			// Set all transition times to the past, so that any change of a condition is visible.
			said := false
			for i := range first.Status.Conditions {
				cond := &first.Status.Conditions[i]
				cond.LastTransitionTime = metav1.Unix(0, 0)
				said = said || cond.Reason == c.want
			}
			if !said {
				t.Errorf("no condition has the reason %s: %+v", c.want, first.Status.Conditions)
			}
			second := first.DeepCopy()
			s.SetStatus(second, b.WholeGroups(s))
			if diff := cmp.Diff(first.Status, second.Status); diff != "" {
				t.Errorf("it changes by itself:\n%s", diff)
			}
		})
	}
}

// TestMissingQuotas checks the missing part of each quota: the part that pods request and do not
// have. A quota that exceeds the parent's quota counts only up to the parent's quota.
func TestMissingQuotas(t *testing.T) {
	quota := func(q *v1alpha1.Queue, gpus string) *v1alpha1.Queue {
		q.Spec.Quota = corev1.ResourceList{corev1.ResourceName(gpu): resource.MustParse(gpus)}
		return q
	}
	b := boardOf(quota(queueUnder("top", ""), "6"), quota(queueUnder("a", "top"), "4"), quota(queueUnder("b", "top"), "9"), queueUnder("c", ""))
	b.Charge(pod("a1", 1, "n"), "a")
	b.Charge(pod("a2", 2, ""), "a")
	b.Charge(pod("b1", 5, ""), "b")
	b.Charge(pod("b2", 5, ""), "b")
	b.Charge(pod("c1", 4, ""), "c")
	got := map[string]string{}
	for queue, missing := range b.Snapshot(gpus).MissingQuotas() {
		for name, quantity := range missing {
			got[queue+" "+string(name)] = quantity.String()
		}
	}
	// Queue a requests 3 of its 4 GPUs. Queue b requests 10, and its quota counts as 6.
	want := map[string]string{"top " + gpu: "5", "a " + gpu: "2", "b " + gpu: "6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}
