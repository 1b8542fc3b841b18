package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// classPause is the pause between two looks at whether the scheduler knows a PriorityClass.
const classPause = 50 * time.Millisecond

// awaitClasses waits until the scheduler knows some PriorityClasses, which it watches apart from
// PodGroups: a PodGroup that names a class before that is told PriorityClassNotFound for a moment.
// A PodGroup without pods, in a namespace that the demo does not narrate, is filled in then.
func awaitClasses(ctx context.Context, config *rest.Config, names ...string) error {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("ask for PriorityClasses: %w", err)
	}
	for _, name := range names {
		probe := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "demo-" + name}}
		probe.Spec.PriorityClassName = &name
		if err := c.Create(ctx, probe); err != nil {
			return fmt.Errorf("see whether the scheduler knows PriorityClass %s: %w", name, err)
		}
		err := wait.PollUntilContextTimeout(ctx, classPause, actTimeout, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(probe), probe)
			return err == nil && probe.Spec.Priority != nil, err
		})
		if err != nil {
			return fmt.Errorf("the scheduler does not know PriorityClass %s: %w", name, err)
		}
		if err := c.Delete(ctx, probe); err != nil {
			return fmt.Errorf("remove PodGroup %s: %w", probe.Name, err)
		}
	}
	return nil
}
