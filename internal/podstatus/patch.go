package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Patch changes the status of the pod with that UID only; see [IsAnotherPod]. Conditions are merged by their type, a nil
// value takes a field away.
func Patch(
	ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID, status map[string]any, options metav1.PatchOptions,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = pods.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, options, "status")
	return err
}

// IsAnotherPod recognises what the API server says to a Patch with the UID of a pod whose name another one has now: that
// it will not change the UID.
func IsAnotherPod(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// IsRefused tells that the API server has answered, and done nothing. What is lost on the way, or fails inside
// the server, may have been done all the same.
func IsRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
