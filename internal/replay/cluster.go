package replay

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// state is the cluster that the lines of one scheduler process describe.
type state struct {
	// objects is nil if the cluster is unknown: before the first line with the whole cluster, and
	// after a missing line until the next such line.
	objects *inventory.Inventory
	version string
	number  uint64
	// promised has the reservations that only the scheduler's memory had.
	promised []decisionlog.Reservation
	// leaving has the UIDs of pods under eviction that only the scheduler's memory had.
	leaving []string
}

// next applies the next line. If the line cannot be read, next returns an error, and the cluster is
// unknown from then on.
func (s *state) next(in *decisionlog.Inputs) error {
	switch {
	case in.Whole != nil:
		if s.objects != nil && in.Number == s.number {
			// The line begins a file and repeats the current state.
			return nil
		}
		s.objects = inventory.New(in.Time).WithNative(in.Whole.NativeVersion)
		s.objects.Configuration, s.objects.Redacted = in.Whole.Configuration, in.Whole.Redacted
		if in.Whole.Roots != nil {
			s.objects = s.objects.WithRoots(rootsOf(in.Whole))
		}
		s.version = in.Whole.Version
	case s.objects == nil, in.Number <= s.number:
		return nil
	case in.From != s.number:
		s.objects = nil
		return nil
	}
	s.number, s.promised, s.leaving = in.Number, in.Promised, in.Leaving
	if err := s.apply(in); err != nil {
		s.objects = nil
		return err
	}
	return nil
}

// rootsOf returns the recorded kinds of root objects. Root objects, such as Jobs, define which pods
// belong together.
func rootsOf(whole *decisionlog.Whole) []inventory.Root {
	out := make([]inventory.Root, len(whole.Roots))
	for i, kind := range whole.Roots {
		out[i] = inventory.Root{APIVersion: kind.APIVersion, Kind: kind.Kind, Resource: kind.Resource}
	}
	return out
}

// apply applies the changes in a line to the objects.
func (s *state) apply(in *decisionlog.Inputs) error {
	for resource, list := range in.Objects {
		objects := make([]inventory.Object, len(list))
		for i, raw := range list {
			var err error
			if objects[i], err = inventory.Parse(raw); err != nil {
				return fmt.Errorf("line %d of the inputs of %s: %w", in.Number, in.Process, err)
			}
		}
		s.objects = s.objects.Patched(resource, objects, nil)
	}
	for resource, list := range in.Gone {
		gone := make([]types.NamespacedName, len(list))
		for i, name := range list {
			gone[i].Namespace, gone[i].Name, _ = strings.Cut(name, "/")
		}
		s.objects = s.objects.Patched(resource, nil, gone)
	}
	return nil
}

// at returns the cluster with the reservations and evictions that only the scheduler's memory had.
// now is the time of the decision.
func (s *state) at(now time.Time) (*inventory.Inventory, error) {
	nodes, leaving := make(map[types.UID]string, len(s.promised)), make(map[types.UID]bool, len(s.leaving))
	for _, p := range s.promised {
		nodes[types.UID(p.UID)] = p.Node
	}
	for _, uid := range s.leaving {
		leaving[types.UID(uid)] = true
	}
	out := s.objects.At(now)
	if len(nodes)+len(leaving) == 0 {
		return out, nil
	}
	var changes []inventory.Change
	objects := out.Objects(inventory.Pods)
	for i := range objects {
		node, goes := nodes[objects[i].UID], leaving[objects[i].UID]
		if node == "" && !goes {
			continue
		}
		pod := &corev1.Pod{}
		if err := objects[i].Into(pod); err != nil {
			return nil, err
		}
		if pod.Spec.NodeName == "" {
			pod.Status.NominatedNodeName = node
		} else if goes && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		}
		changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: pod})
	}
	return out.With(changes...)
}

// prioritized sets the priority of the decision's gang if the PodGroup in the log has none. The log
// may lack it: the scheduler may have used the priority before the informer of the log had the
// change.
func prioritized(objects *inventory.Inventory, of *core.Preemptor) (*inventory.Inventory, error) {
	found, ok := objects.Find(inventory.PodGroups, of.Namespace, of.Name)
	if !of.Gang || !ok {
		return objects, nil
	}
	pg := &v1alpha1.PodGroup{}
	if err := found.Into(pg); err != nil {
		return nil, err
	}
	if pg.Spec.Priority != nil || string(pg.UID) != of.UID {
		return objects, nil
	}
	pg.Spec.Priority = &of.Priority
	if pg.Spec.PreemptionPolicy == nil && of.Never {
		pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	}
	return objects.With(inventory.Change{Resource: inventory.PodGroups, Object: pg})
}
