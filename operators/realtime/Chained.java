package trijoin.realtime;

import java.util.Iterator;
import java.util.List;

/** The items of one iterator after the other. */
final class Chained<T> implements Iterator<T> {
    private final Iterator<? extends Iterator<? extends T>> parts;
    private Iterator<? extends T> here = List.<T>of().iterator();

    Chained(Iterator<? extends Iterator<? extends T>> parts) {
        this.parts = parts;
    }

    @Override
    public boolean hasNext() {
        while (!here.hasNext() && parts.hasNext()) {
            here = parts.next();
        }
        return here.hasNext();
    }

    @Override
    public T next() {
        hasNext();
        return here.next();
    }
}
