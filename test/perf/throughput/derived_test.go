package throughput

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// derived looks for the groups of Jobs and similar objects, as with the default configuration. No
// pod belongs to one, but each pod is checked.
type derived struct {
	resolver      *grouping.Resolver
	follower      *grouping.Follower
	changed, held *controller.Trigger
}

func newDerived(rest *restclient.Config) (*derived, error) {
	builtIn := grouping.BuiltIn()
	settings := grouping.NewSettings([]*grouping.Rule{builtIn["Job"], builtIn["JobSet"], builtIn["LeaderWorkerSet"]}, false)
	d := &derived{changed: &controller.Trigger{}, held: &controller.Trigger{}}
	var err error
	// The pods of scheduler_perf have this schedulerName.
	if d.resolver, err = grouping.NewResolver(map[string]*grouping.Settings{"default-scheduler": settings}, d.changed.Request); err != nil {
		return nil, err
	}
	d.resolver.TellHolds(d.held.Request)
	objects, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("make the client of objects that groups are made for: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	d.follower = grouping.NewFollower(d.resolver, objects, served)
	return d, nil
}

// follow runs the informers of the objects that own pods, until ctx is done.
func (d *derived) follow(ctx context.Context, shared *scheduler.Scheduler) error {
	d.resolver.Attach(shared)
	if err := d.follower.Start(ctx); err != nil {
		return fmt.Errorf("read what groups are made for: %w", err)
	}
	go d.follower.Run(ctx)
	return nil
}
