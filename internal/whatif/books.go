package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// Queues are the Queues by name, each with the status that follows from the objects, whatever the status says that was written last.
func (c *Cluster) Queues() ([]*v1alpha1.Queue, error) {
	queues, err := inventory.Decode[*v1alpha1.Queue](c.objects, inventory.Queues)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	board := c.hub.Board()
	standing := board.Standing(board.Resources())
	if standing == nil {
		return queues, nil
	}
	wholeGroups := board.WholeGroups(standing)
	for _, q := range queues {
		standing.SetStatus(q, wholeGroups)
	}
	return queues, nil
}

// Guards are what keeps units that run from being taken, the first to end first and those without an end last.
func (c *Cluster) Guards() ([]scheduler.Guard, error) {
	// All profiles see all units; the arguments of the first are as good as those of any other.
	profile := slices.Min(slices.Collect(maps.Keys(c.plugins)))
	if err := c.level(profile); err != nil {
		return nil, err
	}
	out, err := c.plugins[profile].Guards()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b scheduler.Guard) int {
		if a.Until.IsZero() != b.Until.IsZero() {
			if a.Until.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Rule, b.Rule))
	})
	return out, nil
}
