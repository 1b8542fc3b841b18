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

// derived runs the part of Reprieve that creates PodGroups for Jobs and similar objects, with the
// settings of the default configuration. The pods of the workloads have no such owner. But this
// part checks each pod, so its time belongs to the measurement.
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
	// The pods of scheduler_perf have the scheduler name default-scheduler.
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

// follow starts the informers of the kinds that own pods. They run until ctx is done.
func (d *derived) follow(ctx context.Context, shared *scheduler.Scheduler) error {
	d.resolver.Attach(shared)
	if err := d.follower.Start(ctx); err != nil {
		return fmt.Errorf("read what groups are made for: %w", err)
	}
	go d.follower.Run(ctx)
	return nil
}
