package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func leaseLife(ctx context.Context, c *clientv3.Client) error {
	lease, err := c.Grant(ctx, 30)
	if err != nil {
		return err
	}
	for _, key := range []string{"go/l/b", "go/l/a"} {
		if _, err = c.Put(ctx, key, "1", clientv3.WithLease(lease.ID)); err != nil {
			return err
		}
	}
	left, err := c.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	if left.GrantedTTL != 30 || left.TTL < 28 || left.TTL > 30 || len(left.Keys) != 2 {
		return fmt.Errorf("expected about 30 of 30 s and two keys, seen %+v", left)
	}
	all, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	if len(all.Leases) != 1 || all.Leases[0].ID != lease.ID {
		return fmt.Errorf("expected one lease %x, seen %v", lease.ID, all.Leases)
	}
	if _, err = c.Revoke(ctx, lease.ID); err != nil {
		return err
	}
	get, err := c.Get(ctx, "go/l/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	if get.Count != 0 {
		return fmt.Errorf("expected no key of a revoked lease, seen %d", get.Count)
	}
	left, err = c.TimeToLive(ctx, lease.ID)
	if err != nil {
		return err
	}
	if left.TTL != -1 {
		return fmt.Errorf("expected TTL -1 of an unknown lease, seen %d", left.TTL)
	}
	return nil
}

func leaseErrors(ctx context.Context, c *clientv3.Client) error {
	if _, err := c.Revoke(ctx, 77); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrLeaseNotFound, err)
	}
	if _, err := c.KeepAliveOnce(ctx, 77); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrLeaseNotFound, err)
	}
	if _, err := c.Grant(ctx, 9000000001); !errors.Is(err, rpctypes.ErrLeaseTTLTooLarge) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrLeaseTTLTooLarge, err)
	}
	_, err := c.Put(ctx, "go/l/x", "1", clientv3.WithLease(77))
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrLeaseNotFound, err)
	}
	return nil
}

// keepMany keeps leases of two seconds alive on one stream for some seconds, then lets go of them.
func keepMany(ctx context.Context, c *clientv3.Client) error {
	const count = 500
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	var ids []clientv3.LeaseID
	answers := make(chan (<-chan *clientv3.LeaseKeepAliveResponse), count)
	for i := 0; i < count; i++ {
		lease, err := c.Grant(ctx, 2)
		if err != nil {
			return err
		}
		kept, err := c.KeepAlive(keeping, lease.ID)
		if err != nil {
			return err
		}
		ids = append(ids, lease.ID)
		answers <- kept
		go func() {
			for range kept {
			}
		}()
	}
	time.Sleep(5 * time.Second)
	all, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	if len(all.Leases) != count {
		return fmt.Errorf("expected %d leases that live, seen %d", count, len(all.Leases))
	}
	stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if all, err = c.Leases(ctx); err != nil {
			return err
		}
		if len(all.Leases) == 0 {
			return nil
		}
	}
	return fmt.Errorf("expected that all of %d leases run out, seen %d", len(ids), len(all.Leases))
}

// pipelined sends far more renewals than are answered at a time, ends its side and reads what comes.
func pipelined(ctx context.Context, c *clientv3.Client) error {
	const count = 30000
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		return err
	}
	stream, err := pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	go func() {
		for i := 0; i < count; i++ {
			id := int64(lease.ID)
			if i%3 == 0 {
				id = int64(i + 1)
			}
			if stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) != nil {
				return
			}
		}
		_ = stream.CloseSend()
	}()
	for i := 0; i < count; i++ {
		answer, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
		id, ttl := int64(lease.ID), int64(60)
		if i%3 == 0 {
			id, ttl = int64(i+1), 0
		}
		if answer.ID != id || answer.TTL != ttl {
			return fmt.Errorf("answer %d: expected lease %x and TTL %d, seen %x and %d", i, id, ttl, answer.ID, answer.TTL)
		}
	}
	if _, err = stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("expected the end of the stream, seen %v", err)
	}
	_, err = c.Revoke(ctx, lease.ID)
	return err
}

// sessions asks for what the concurrency package needs of leases; locks themselves need watches.
func sessions(ctx context.Context, c *clientv3.Client) error {
	session, err := concurrency.NewSession(c, concurrency.WithTTL(2), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	if _, err = c.Put(ctx, "go/session", "1", clientv3.WithLease(session.Lease())); err != nil {
		return err
	}
	time.Sleep(4 * time.Second)
	get, err := c.Get(ctx, "go/session")
	if err != nil {
		return err
	}
	if get.Count != 1 {
		return fmt.Errorf("expected that a session keeps its key")
	}
	if err = session.Close(); err != nil {
		return err
	}
	select {
	case <-session.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	get, err = c.Get(ctx, "go/session")
	if err != nil {
		return err
	}
	if get.Count != 0 {
		return fmt.Errorf("expected that the key goes with its session")
	}
	return nil
}

func defragment(ctx context.Context, c *clientv3.Client) error {
	endpoint := c.Endpoints()[0]
	before, err := c.HashKV(ctx, endpoint, 0)
	if err != nil {
		return err
	}
	if _, err = c.Defragment(ctx, endpoint); err != nil {
		return err
	}
	after, err := c.HashKV(ctx, endpoint, before.HashRevision)
	if err != nil {
		return err
	}
	if before.Hash != after.Hash {
		return fmt.Errorf("expected hash %d again, seen %d", before.Hash, after.Hash)
	}
	status, err := c.Status(ctx, endpoint)
	if err != nil {
		return err
	}
	if status.DbSize != status.DbSizeInUse {
		return fmt.Errorf("expected no free space, seen %d of %d bytes in use", status.DbSizeInUse, status.DbSize)
	}
	return nil
}
