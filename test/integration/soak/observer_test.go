package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
)

// These are the prefixes of the keys in etcd that the observer watches.
const (
	registry    = "/registry/"
	podPlace    = registry + "pods/"
	nodePlace   = registry + "minions/"
	classPlace  = registry + "priorityclasses/"
	groupPlace  = registry + "reprieve.dev/podgroups/"
	treePlace   = registry + "reprieve.dev/compositepodgroups/"
	queuePlace  = registry + "reprieve.dev/queues/"
	dialTimeout = 10 * time.Second
)

// observer watches etcd and passes each write to a Checker. Its methods are safe for concurrent
// use.
type observer struct {
	mu      sync.Mutex
	checker *invariants.Checker
	err     error
}

// observe starts an observer that ends with the test.
func observe(t *testing.T, run *playground.Playground) *observer {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{run.Component(playground.Etcd).URL()}, TLS: run.EtcdTLS(), DialTimeout: dialTimeout,
		// Ignore the log, because the test breaks connections.
		Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("connect to etcd: %v", err)
	}
	o := &observer{checker: invariants.New(time.Now(), invariants.DefaultBounds())}
	ctx, stop := context.WithCancel(t.Context())
	now, err := client.Get(ctx, registry, clientv3.WithPrefix())
	if err != nil {
		stop()
		t.Fatalf("read etcd: %v", err)
	}
	for _, kv := range now.Kvs {
		o.see(string(kv.Key), kv.Value)
	}
	changes := client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(ctx, changes) })
	t.Cleanup(func() {
		stop()
		watching.Wait()
		if err := client.Close(); err != nil && ctx.Err() == nil {
			t.Errorf("close the connection to etcd: %v", err)
		}
	})
	return o
}

// watch passes changes to the Checker. The etcd client reconnects when a connection breaks, and
// continues at the same revision.
func (o *observer) watch(ctx context.Context, changes clientv3.WatchChan) {
	for response := range changes {
		if err := response.Err(); err != nil {
			o.fail(ctx, err)
			return
		}
		for _, event := range response.Events {
			if event.Type == clientv3.EventTypeDelete {
				o.gone(string(event.Kv.Key))
			} else {
				o.see(string(event.Kv.Key), event.Kv.Value)
			}
		}
	}
	o.fail(ctx, errors.New("the watch has ended"))
}

func (o *observer) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = fmt.Errorf("watch etcd: %w", err)
}

// failure returns an error if the observer has missed changes, or nil.
func (o *observer) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// with calls f with exclusive access to the Checker.
func (o *observer) with(f func(*invariants.Checker)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o.checker)
}

// tick calls the method Tick of the Checker every second until ctx is done.
func (o *observer) tick(ctx context.Context) {
	// Ignore the error. It only reports the end of ctx.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		o.with(func(c *invariants.Checker) { c.Tick(time.Now()) })
		return false, nil
	})
}

func (o *observer) see(key string, value []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object, err := decode(key, value)
	if err != nil {
		o.err = fmt.Errorf("read %s: %w", key, err)
		return
	}
	now := time.Now()
	switch object := object.(type) {
	case *corev1.Pod:
		o.checker.SeePod(now, object)
	case *v1alpha1.PodGroup:
		o.checker.SeeGroup(now, object)
	case *v1alpha1.CompositePodGroup:
		o.checker.SeeTree(object)
	case *v1alpha1.Queue:
		o.checker.SeeQueue(object)
	case *corev1.Node:
		o.checker.SeeNode(object)
	case *schedulingv1.PriorityClass:
		o.checker.SeeClass(object)
	}
}

// decode decodes an object of a watched kind. It returns nil for other kinds.
func decode(key string, value []byte) (runtime.Object, error) {
	switch {
	case strings.HasPrefix(key, podPlace), strings.HasPrefix(key, nodePlace), strings.HasPrefix(key, classPlace):
		object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
		return object, err
	case strings.HasPrefix(key, groupPlace):
		pg := &v1alpha1.PodGroup{}
		return pg, json.Unmarshal(value, pg)
	case strings.HasPrefix(key, treePlace):
		tree := &v1alpha1.CompositePodGroup{}
		return tree, json.Unmarshal(value, tree)
	case strings.HasPrefix(key, queuePlace):
		q := &v1alpha1.Queue{}
		return q, json.Unmarshal(value, q)
	}
	return nil, nil
}

func (o *observer) gone(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if name, ok := nameIn(key, podPlace); ok {
		o.checker.PodGone(now, name)
	}
	if name, ok := nameIn(key, groupPlace); ok {
		o.checker.GroupGone(now, name)
	}
	if name, ok := nameIn(key, treePlace); ok {
		o.checker.TreeGone(name)
	}
	if name, ok := strings.CutPrefix(key, nodePlace); ok {
		o.checker.NodeGone(name)
	}
}

// nameIn returns the namespace and the name in a key. It returns false if the key does not have the
// prefix place.
func nameIn(key, place string) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(key, place)
	if !ok {
		return types.NamespacedName{}, false
	}
	namespace, name, ok := strings.Cut(rest, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}
