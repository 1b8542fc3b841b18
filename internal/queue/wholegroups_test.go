package queue

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestQuotaThatIsHeld checks when a queue cannot reclaim its quota: only if whole groups of other
// queues are larger than the usage of these queues beyond their quota.
func TestQuotaThatIsHeld(t *testing.T) {
	t.Parallel()
	type work struct {
		name, queue, group string
		whole              bool
		size               int64
		node               string
	}
	gang := func(queue string, members int, size int64, whole bool) (out []work) {
		for i := range members {
			out = append(out, work{name: queue + string(rune('0'+i)), queue: queue, group: "g", whole: whole, size: size, node: "n"})
		}
		return out
	}
	a := func(size int64) work { return work{name: "wants", queue: "a", size: size} }
	for name, c := range map[string]struct {
		queues []*v1alpha1.Queue
		work   []work
		want   string
	}{
		"a gang of all there is": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 4, 2, true), a(4)),
			want:   `4 nvidia.com/gpu of the quota cannot be given back: PodGroup ns/g of Queue "b" goes as a whole and has 8 nvidia.com/gpu, more than the 4 nvidia.com/gpu by which its quota is exceeded`,
		},
		"one whose members go by themselves": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 4, 2, false), a(4)),
		},
		"one that is as large as what is lent": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 2, 2, true), work{name: "more", queue: "b", size: 4, node: "n"}, a(4)),
		},
		"a part is given back": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 3, 2, true), work{name: "more", queue: "b", size: 2, node: "n"}, a(4)),
			want:   `2 nvidia.com/gpu of the quota cannot be given back`,
		},
		"nothing is wanted": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(4))},
			work:   gang("b", 4, 2, true),
		},
		"no more than is free": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(4)), queueUnder("b", "", quota(2))},
			work:   append(gang("b", 2, 2, true), a(4)),
		},
		"another queue gives it back": {
			queues: []*v1alpha1.Queue{queueUnder("a", "", quota(2)), queueUnder("b", "", quota(3)), queueUnder("c", "")},
			work:   append(gang("b", 2, 2, true), work{name: "c", queue: "c", size: 4, node: "n"}, a(2)),
		},
		"of a queue beside the parent": {
			queues: []*v1alpha1.Queue{queueUnder("top", "", quota(4)), queueUnder("a", "top", quota(4)), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 4, 2, true), a(4)),
			want:   `Queue "b"`,
		},
		"no quota": {
			queues: []*v1alpha1.Queue{queueUnder("a", ""), queueUnder("b", "", quota(4))},
			work:   append(gang("b", 4, 2, true), a(4)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardOf(c.queues...)
			for _, w := range c.work {
				of := Membership{}
				if w.group != "" {
					of = Membership{Group: types.NamespacedName{Namespace: "ns", Name: w.group}, Whole: w.whole}
				}
				b.ChargeMember(pod(w.name, w.size, w.node), w.queue, of)
			}
			s := b.Snapshot(gpus)
			got := c.queues[0].DeepCopy()
			for _, q := range c.queues {
				if q.Name == "a" {
					got = q.DeepCopy()
				}
			}
			s.SetStatus(got, b.WholeGroups(s))
			said := apimeta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionQuotaServed)
			if held := said.Reason == v1alpha1.ReasonQuotaHeld; held != (c.want != "") || !strings.Contains(said.Message, c.want) {
				t.Errorf("It says %s: %s; want %q", said.Reason, said.Message, c.want)
			}
			for _, w := range c.work {
				b.Forget(types.UID(w.name))
			}
			if len(b.wholeGroups) > 0 {
				t.Errorf("%v is left", b.wholeGroups)
			}
		})
	}
}

// TestQuotaHeldByWhatHoldsIt checks a queue with two whole gangs on a node with 16 GPUs and 64
// CPUs. The larger gang uses 12 GPUs and 36 CPUs, the smaller gang 4 of each. The larger gang has
// more CPUs than its queue uses beyond the quota of CPUs. This excess protects the gang only if the
// quota holds the gang by its CPUs and not by its GPUs; see [fairshare.Holding].
func TestQuotaHeldByWhatHoldsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gpus string
		want bool
	}{
		"for its GPUs":                   {gpus: "4"},
		"where its quota names no GPUs":  {gpus: "0", want: true},
		"where its quota has these GPUs": {gpus: "12", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asks := func(gpus, cpus string) corev1.ResourceList {
				return corev1.ResourceList{gpu: resource.MustParse(gpus), corev1.ResourceCPU: resource.MustParse(cpus)}
			}
			b := NewLedger()
			b.SetNode(node("n", 0, func(n *corev1.Node) { n.Status.Allocatable = asks("16", "64") }))
			b.SetQueue(queueUnder("a", "", func(s *v1alpha1.QueueSpec) { s.Quota = asks("8", "32") }))
			b.SetQueue(queueUnder("b", "", func(s *v1alpha1.QueueSpec) { s.Quota = asks(c.gpus, "32") }))
			charge := func(name, queue, node string, whole bool, amounts corev1.ResourceList) {
				p := pod(name, 0, node)
				p.Spec.Containers[0].Resources.Requests = amounts
				group := types.NamespacedName{Namespace: "ns", Name: name}
				b.ChargeMember(p, queue, Membership{Group: group, Whole: whole})
				b.SetGroupState(group, GroupState{Need: 1})
			}
			charge("large", "b", "n", true, asks("12", "36"))
			charge("small", "b", "n", true, asks("4", "4"))
			charge("wants", "a", "", false, asks("8", "32"))
			b.AllCharged()
			s := b.Snapshot([]string{"cpu", gpu})
			i, _ := s.Tree.Find("a")
			if got := s.unreturnable(i, b.WholeGroups(s)); (got != "") != c.want {
				t.Errorf("it says %q, want something: %t", got, c.want)
			}
		})
	}
}

// TestQuotaHeldBesideFreeNodes checks that free nodes do not help a queue whose work cannot run on
// them.
func TestQuotaHeldBesideFreeNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone string
		want bool
	}{
		"of a zone that its work cannot reach": {zone: "l", want: true},
		"of its own zone":                      {zone: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := NewLedger()
			b.SetNode(zoned("n", "s", 8))
			b.SetNode(zoned("free", c.zone, 8))
			b.SetQueue(queueUnder("a", "", quota(4)))
			b.SetQueue(queueUnder("b", "", quota(4)))
			group := types.NamespacedName{Namespace: "ns", Name: "g"}
			for i := range 4 {
				b.ChargeMember(inZone("s", pod(string(rune('p'+i)), 2, "n")), "b", Membership{Group: group, Whole: true})
			}
			b.Charge(inZone("s", pod("wants", 4, "")), "a")
			b.AllCharged()
			s := b.Snapshot(gpus)
			i, _ := s.Tree.Find("a")
			if got := s.unreturnable(i, b.WholeGroups(s)); (got != "") != c.want {
				t.Errorf("it says %q, want something: %t", got, c.want)
			}
		})
	}
}
