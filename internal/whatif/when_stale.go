package whatif

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// mostStale is the maximum number of decisions that onceStale makes.
const mostStale = 8

// staleGang is a gang that lacks members, and the time when it becomes stale.
type staleGang struct {
	key types.NamespacedName
	at  time.Time
}

// onceStale looks for the first time when the workload has room because other gangs have become
// stale. It sets the latest start to that time, unless a declared end is earlier.
func (f *forecast) onceStale(ctx context.Context, out *Bounds) error {
	gangs, err := staleGangs(ctx, f.objects, f.cfg)
	if err != nil {
		return err
	}
	for _, gang := range gangs[:min(len(gangs), mostStale)] {
		if out.AtTheLatest != nil && !gang.at.Before(*out.AtTheLatest) {
			return nil
		}
		then, err := f.decide(ctx, f.objects.At(gang.at.Add(time.Nanosecond)))
		if err != nil {
			return err
		}
		if isPlaced(&then) {
			out.end(gang.at, fmt.Sprintf("gang %s may be preempted from then on if it still lacks members (StaleGang); its victims take their grace periods on top", gang.key), &then)
			return nil
		}
	}
	return nil
}

// staleGangs returns the gangs that lack members and are not stale yet, sorted by the time when
// they become stale.
func staleGangs(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) ([]staleGang, error) {
	groups, err := inventory.Decode[*v1alpha1.PodGroup](objects, inventory.PodGroups)
	if err != nil {
		return nil, err
	}
	groups = slices.DeleteFunc(groups, func(pg *v1alpha1.PodGroup) bool {
		return !meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionDegraded)
	})
	if len(groups) == 0 {
		return nil, nil
	}
	cluster, err := New(ctx, objects, cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	var out []staleGang
	for _, pg := range groups {
		key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
		if at := cluster.shared.StaleFrom(key); at.After(objects.Taken) {
			out = append(out, staleGang{key, at})
		}
	}
	slices.SortStableFunc(out, func(a, b staleGang) int { return a.at.Compare(b.at) })
	return out, nil
}
